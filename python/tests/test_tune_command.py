"""The command `tidegate tune`: its options, its output, and Ctrl-C."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import tidegate
from tidegate._tune import files, run
from tidegate._tune.command import main
from tuning import SCENARIO

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_the_command_prints_the_study(tmp_path):
    (tmp_path / "mine.toml").write_text(tidegate._native.toml_document(json.dumps(SCENARIO)))
    command = Path(sys.executable).with_name("tidegate")

    def tune(*more):
        words = ["tune", "mine.toml", "--protocols", "swift", "--budget", "4", "--final-seeds", "2"]
        return subprocess.run(
            [command, *words, "--cache", "cache", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    ranged = "--range=swift.base_target=10us..50us"
    objective = ("--objective", "min slowdown_p99 of small")
    over = ("--over", "traffic.0.load=0.3,0.6")
    found = tune(*objective, *over, ranged, "--params", "swift.base_target", "--out", "tuned")
    assert found.returncode == 0, found.stderr
    assert "Mean over traffic.0.load = 0.3, 0.6." in found.stdout
    assert "swift" in found.stdout and "are in tuned" in found.stdout
    written = json.loads((tmp_path / "tuned" / "tune.json").read_text())
    keys = ("version", "revision", "semantics")
    assert tuple(written[key] for key in keys) == tidegate._native.versions()
    for more, words in [
        (("--objective", "slowdown_p99"), "--objective: found 'slowdown_p99'"),
        ((*objective, "--range", "p=1"), "--range: found 'p=1'"),
        ((*objective, "--set", "fabric.hosts=0"), "fabric.hosts"),
    ]:
        refused = tune(*more)
        assert refused.returncode == 2 and words in refused.stderr, refused.stderr


@pytest.fixture
def command(monkeypatch):
    """Return `tidegate tune` of this process, and the arguments that `tidegate.tune` gets."""
    given = {}

    def called(why=None, **options):
        def tune(*arguments, **named):
            given.update(named)
            raise why or tidegate.RunError("no search")

        monkeypatch.setattr(run, "tune", tune)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        defaults = {"ranges": [], "over": [], "quiet": False, "json": False, "out": None}
        defaults["force"] = False
        named = {"scenario": "mine.toml", "protocols": ["swift"], "objective": ["min drops"]}
        return main(json.dumps({**defaults, **named, **options})), given

    return called


def test_values_of_the_command_are_converted(command):
    over = ["traffic.0.load=0.3,1", "faults.failure=none,spine0", "traffic.0.reply=true"]
    status, given = command(over=over, ranges=["swift.base_target=10us..50us"])
    assert status == 1
    values = {key: [(type(one), one) for one in own] for key, own in given["over"].items()}
    assert values == {
        "traffic.0.load": [(float, 0.3), (int, 1)],
        "faults.failure": [(str, "none"), (str, "spine0")],
        "traffic.0.reply": [(bool, True)],
    }
    assert given["ranges"] == {"swift.base_target": ("10us", "50us")}


@pytest.mark.parametrize(
    ("option", "key", "values"),
    [("over", "traffic.0.load", ["0.1", "0.2"]), ("range", "swift.beta", ["0.1..1", "0.2..1"])],
)
def test_a_key_occurs_once(command, capsys, option, key, values):
    field = "ranges" if option == "range" else option
    with pytest.raises(SystemExit):
        command(**{field: [f"{key}={one}" for one in values]})
    assert f"--{option}: {key} occurs twice" in capsys.readouterr().err


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("names", "holds", "continues"),
    [
        ([], False, False),
        ([files.JOURNAL], False, True),
        ([files.JOURNAL, files.SO_FAR], True, True),
        # The search has written its result, and is complete.
        ([files.JOURNAL, files.RESULT], False, False),
    ],
)
def test_an_interrupt_names_what_continues(
    command, tmp_path, capsys, names, holds, continues, force
):
    for name in names:
        (tmp_path / name).touch()

    def interrupted(why):
        assert command(out=str(tmp_path), force=force, why=why)[0] == 130
        return capsys.readouterr().err

    text = interrupted(files.Interrupted())
    assert ("holds the best so far" in text) == holds
    assert ("the same call continues" in text) == (continues and not force)
    assert ("the same call without --force continues" in text) == (continues and force)
    # The files may be of another search: this one has not begun.
    assert interrupted(KeyboardInterrupt()) == "tidegate: interrupted\n"


@pytest.mark.parametrize("at", ["load", "check", "_remove", "mend", "write_so_far"])
def test_an_interrupt_knows_whether_the_search_began(tmp_path, monkeypatch, at):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run if at == "load" else files, at, interrupted)
    with pytest.raises(KeyboardInterrupt) as why:
        tidegate.tune(
            SCENARIO,
            "all" if at == "load" else "swift",
            "min drops",
            budget=2,
            params=["swift.base_target"],
            threads=1,
            out=tmp_path / "out",
            force=True,
            cache=tmp_path / "cache",
        )
    began = at in ("mend", "write_so_far")
    assert isinstance(why.value, files.Interrupted) == began


def test_an_interrupt_ends_the_imports(tmp_path):
    # The interpreter of the search stops at an import until the signal ends it.
    (tmp_path / "sitecustomize.py").write_text(
        """
import signal, sys

class Stop:
    def find_spec(self, name, *_):
        if name == "tidegate._tune.run" and len(sys.argv) == 2 and sys.argv[0] == "-c":
            print("importing", flush=True)
            while True:
                signal.pause()

sys.meta_path.insert(0, Stop())
"""
    )
    (tmp_path / "mine.toml").write_text(tidegate._native.toml_document(json.dumps(SCENARIO)))
    words = [Path(sys.executable).with_name("tidegate"), "tune", "mine.toml"]
    words += ["--protocols", "swift", "--objective", "min drops", "--cache", "cache"]
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    begun = subprocess.Popen(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert begun.stdout.readline() == "importing\n"
    begun.send_signal(signal.SIGINT)
    message = begun.communicate(timeout=60)[1]
    assert begun.returncode == -signal.SIGINT and not message, message


def test_an_interrupt_in_a_lock_is_an_interrupt(tmp_path, monkeypatch):
    def interrupted(*_):
        # As Optuna's lock, which removes its file again after an interruption.
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            (tmp_path / "missing").unlink()

    monkeypatch.setattr(files, "write_so_far", interrupted)
    words = {"objective": "min slowdown_p99 of small", "budget": 2, "final_seeds": 2}
    with pytest.raises(files.Interrupted):
        run.tune(SCENARIO, ["swift"], out=tmp_path / "out", cache=tmp_path / "cache", **words)


def test_an_interrupt_leaves_the_best_so_far(tmp_path):
    slow = {**SCENARIO, "duration": "2ms"}
    (tmp_path / "mine.toml").write_text(tidegate._native.toml_document(json.dumps(slow)))
    words = [
        Path(sys.executable).with_name("tidegate"),
        *("tune", "mine.toml", "--protocols", "swift", "--params", "swift.base_target"),
        *("--objective", "min slowdown_p99 of small", "--final-seeds", "2", "--threads", "1"),
        *("--budget", "12", "--cache", "cache", "--out", "out"),
    ]
    out = tmp_path / "out"
    begun = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (out / files.SO_FAR).exists() and begun.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    begun.send_signal(signal.SIGINT)
    message = begun.communicate(timeout=60)[1]
    assert begun.returncode == 130, message
    assert "out holds the best so far, and the same call continues" in message
    assert "Traceback" not in message
    best = json.loads((out / files.SO_FAR).read_text())
    assert best["swift"]["values"] and not (out / files.RESULT).exists()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (out / files.SO_FAR).exists()
    with (out / files.TRIALS).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == [str(i) for i in range(12)]
    assert {row["state"] for row in rows} <= {"complete", "pruned"}
