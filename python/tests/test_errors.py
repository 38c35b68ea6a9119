"""Errors, and that they leave no files behind."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate


def long(scenario: dict[str, Any]) -> dict[str, Any]:
    """The same scenario with a run time of minutes."""
    return {**scenario, "duration": "10s"}


def test_wrong_scenario_message(scenario: dict[str, Any], tmp_path: Path) -> None:
    scenario["fabric"]["spine"] = 4
    file = tmp_path / "scenario.toml"
    file.write_text(tidegate._arguments.scenario(scenario)[1])
    out = tmp_path / "out"
    with pytest.raises(tidegate.ScenarioError) as raised:
        tidegate.run(file, out=out)
    result = subprocess.run(["tidegate", "run", file], capture_output=True, text=True)
    assert result.returncode == 2 and result.stderr == f"tidegate: {raised.value}\n"
    assert f"{file}:" in str(raised.value) and 'did you mean "spines"' in str(raised.value)
    assert not out.exists()
    with pytest.raises(tidegate.ScenarioError, match=r"^scenario: fabric.spine: found the unknown"):
        tidegate.run(scenario)
    with pytest.raises(tidegate.ScenarioError, match=r"^scenario: found bytes, .*decode"):
        tidegate.run(b"duration = '1ms'\n")  # type: ignore[arg-type]
    with pytest.raises(tidegate.ScenarioError, match=r"^scenario:2: "):
        tidegate.run("duration = '1ms'\nfabric = 7\n")


def test_wrong_arguments(scenario: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    tidegate.run(scenario, out=out)
    for refused, words in (
        (lambda: tidegate.run(scenario, out=out), "holds results"),
        (lambda: tidegate.run(scenario, force=True), "--force"),
        (lambda: tidegate.run(scenario, threads=0), "--threads"),
        (lambda: tidegate.run(scenario, threads=-1), "--threads: found -1"),
        (lambda: tidegate.run(scenario, partitions=0), "--partitions: found 0"),
        (lambda: tidegate.run(scenario, threads=10**9), "--threads: found 1000000000"),
        (lambda: tidegate.run(scenario, seed=-1), "--seed: found -1"),
        (lambda: tidegate.load(scenario, seed=2**70), "--seed: found 1180591620717411303424"),
        (lambda: tidegate.run(scenario, seed=0.5), "--seed: found 0.5"),
        (lambda: tidegate.compare(scenario, []), "--protocols: found none"),
        (lambda: tidegate.sweep(scenario, {"drain": 0.3}), "--vary: drain: found 0.3"),
        (lambda: tidegate.sweep(scenario, {"drain": ["1ms"]}, search_seed=-1), "--search-seed"),
        (lambda: tidegate.sweep(scenario, {"drain": ["1ms"]}, cache=__file__), "cannot store runs"),
        (lambda: tidegate.reproduce("poseidon/1", cache=__file__), "cannot store runs"),
        (lambda: tidegate.run(scenario, seeds="1.."), "--seeds"),
        (lambda: tidegate.run(scenario, seeds=[]), "--seeds"),
        (lambda: tidegate.compare(scenario, ["no-such"]), "unknown protocol"),
        (lambda: tidegate.reproduce("nobody"), "unknown paper"),
        (lambda: tidegate.run(scenario, set="duration=2ms"), "--set"),
    ):
        with pytest.raises(tidegate.UsageError, match=words):
            refused()
    tidegate.run(scenario, out=out, force=True)
    for wrong, words in (
        ({"duration": None}, "duration: found None"),
        ({"seed": float("nan")}, "seed: found nan"),
        ({"traffic": [{"load": object()}]}, r"traffic\[0\].load: found"),
    ):
        with pytest.raises(tidegate.ScenarioError, match=words):
            tidegate.run({**scenario, **wrong})
    with pytest.raises(tidegate.RunError, match="holds no results"):
        tidegate.read(tmp_path)
    (out / "flows.parquet").write_bytes(b"no Parquet")
    with pytest.raises(tidegate.RunError, match=r"flows\.parquet"):
        tidegate.read(out)
    (out / "flows.parquet").unlink()
    with pytest.raises(tidegate.RunError, match=r"flows\.parquet: the file is missing"):
        tidegate.read(out)


def test_numpy_numbers_and_paths(scenario: dict[str, Any], tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("1000,0.5\n2000,1.0\n")
    scenario["traffic"][0].update(sizes=sizes, load=np.float64(0.3))
    scenario["fabric"]["spines"] = np.int64(3)
    assert tidegate.load(scenario).resolved["fabric"]["spines"] == 3


def test_warnings(scenario: dict[str, Any]) -> None:
    scenario["traffic"][0]["load"] = 1.0
    scenario["drain"] = "0ms"
    scenario["fabric"]["fabric_link"] = {"rate": "40Gbps"}
    with pytest.warns(tidegate.TidegateWarning) as warned:
        run = tidegate.run(scenario)
    assert [str(one.message) for one in warned] == list(run.summary.warnings)
    assert all(one.filename == __file__ for one in warned)


def test_ctrl_c_leaves_no_files(scenario: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    threading.Timer(0.5, _thread.interrupt_main).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        tidegate.run(long(scenario), out=out)
    assert time.monotonic() - started < 5
    assert not (tmp_path / "a").exists()


def test_exception_in_bar_ends_run(
    scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(tidegate._progress.Bar, "callback", fail)
    with pytest.raises(RuntimeError, match="no more"):
        tidegate.run(long(scenario))


def test_run_releases_gil(scenario: dict[str, Any]) -> None:
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            counted.append(1)
            time.sleep(0.001)

    counted: list[int] = []
    other = threading.Thread(target=count)
    other.start()
    started = time.monotonic()
    tidegate.run(scenario, set={"duration": "10ms"})
    took = time.monotonic() - started
    done.set()
    other.join()
    assert len(counted) > 100 * took


def test_command_ctrl_c(scenario: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(tidegate._arguments.scenario(long(scenario))[1])
    out = tmp_path / "out"
    run = subprocess.Popen(
        ["tidegate", "run", file, "--out", out], stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.5)
    run.send_signal(signal.SIGINT)
    _, message = run.communicate(timeout=10)
    assert run.returncode == 130 and message == "tidegate: interrupted\n"
    assert not out.exists()


def test_command_output() -> None:
    result = subprocess.run(["tidegate", "--version"], capture_output=True, text=True)
    assert result.stdout == f"tidegate {tidegate.__version__}\n" and result.returncode == 0
    assert subprocess.run(["tidegate"], capture_output=True).returncode == 2
    assert subprocess.run(["tidegate", "nothing"], capture_output=True).returncode == 2


def test_progress_in_terminals(scenario: dict[str, Any]) -> None:
    code = f"import tidegate; tidegate.run({scenario!r}, progress=%s)"
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    for progress, shown in ((True, True), (False, False), (None, False)):
        done = subprocess.run(
            [sys.executable, "-c", code % progress], capture_output=True, text=True, env=env
        )
        assert done.returncode == 0, done.stderr
        assert ("%" in done.stderr) == shown
