"""The scenarios of docs/tuning-examples.md are valid, and its searches run with a small budget."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

pytest.importorskip("optuna")
pytest.importorskip("scipy")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tuning-examples.md"
COMMAND = Path(sys.executable).with_name("tidegate")

# Overrides of an example that shorten its runs.
SHORTER = {
    "cluster": ["duration=600us", "warmup=100us"],
    "storage": ["duration=1ms", "warmup=200us"],
    "training": ["traffic.gradients.size=200KB", "warmup=0us"],
}


def commands(begin: str) -> list[list[str]]:
    """Return the commands of the page that begin so, as words."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith(begin)]


def searches() -> dict[str, list[str]]:
    """Return the searches of the page, by the name of the scenario."""
    return {Path(words[2]).stem: words for words in commands("tidegate tune ")}


def replaced(words: list[str], **values: object) -> list[str]:
    """Return a command with other values of its options."""
    words = list(words)
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if option in words:
            words[words.index(option) + 1] = str(value)
        else:
            words += [option, str(value)]
    return words


@pytest.mark.parametrize("name", SHORTER)
def test_example_runs(name: str, tmp_path: Path) -> None:
    words = searches()[name]
    protocols = words[words.index("--protocols") + 1].split(",")
    for protocol in protocols:
        tidegate.load(ROOT / words[2], set={"transport.protocol": protocol})
    out = tmp_path / "out"
    short = replaced(
        words,
        budget=2 * len(protocols),
        seeds=1,
        final_seeds=2,
        out=out,
        cache=tmp_path / "cache",
    )
    for change in SHORTER[name]:
        short += ["--set", change]
    done = subprocess.run(
        [COMMAND, *short[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    study = json.loads((out / "tune.json").read_text())
    assert {one["protocol"] for one in study["protocols"]} == set(protocols)
    assert len(study["candidates"]) == 2 * len(protocols)


def test_storage_is_the_measured_traffic(tmp_path: Path) -> None:
    ((*words, _),) = commands("tidegate workload from ")
    subprocess.run([COMMAND, *words[1:], tmp_path / "out"], cwd=ROOT, check=True)
    sizes = (ROOT / "scenarios" / "tune" / "storage-sizes.csv").read_text()
    assert (tmp_path / "out" / "sizes.csv").read_text() == sizes
    written = tidegate.load(tmp_path / "out" / "scenario.toml").resolved["traffic"]
    edited = tidegate.load(ROOT / "scenarios" / "tune" / "storage.toml").resolved["traffic"]
    for ours, theirs in zip(edited, written, strict=True):
        assert ours["label"] == theirs["label"]
        if "load" in ours:
            assert ours["load"] == pytest.approx(20 * theirs["load"], rel=1e-4)


def test_pictures_are_current() -> None:
    shown = json.loads((ROOT / "docs" / "pictures" / "tuning.json").read_text())
    titles = {protocol.name: protocol.title for protocol in tidegate.protocols()}
    outdated: set[str] = set()
    for run, old in shown.items():
        name, protocol = run.split("/")
        scenario = ROOT / "scenarios" / "tune" / f"{name}.toml"
        plan = tidegate.load(scenario, set={"transport.protocol": protocol})
        if plan.hash != old:
            outdated.add(titles[protocol])
    # The page names the protocols whose rules have been revised since its searches.
    stated = re.search(r"before revision \d+ of ([^.]*)\.", " ".join(PAGE.read_text().split()))
    named = set(re.split(", | and ", stated[1])) if stated else set()
    assert outdated == named, "repeat the searches, and scripts/tuning-pictures.py"
    assert {run.split("/")[0] for run in shown} == set(searches())
    for name in searches():
        for end in ("", "-curves"):
            picture = ROOT / "docs" / "pictures" / f"tuning-{name}{end}.svg"
            assert picture.stat().st_size < 70_000
            assert f"pictures/{picture.name}" in PAGE.read_text()
