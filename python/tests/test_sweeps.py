"""Sweeps write the same files as the command, locally and on workers."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

import tidegate
from conftest import names
from tidegate._cluster import batches
from tidegate.results import Sweep

LOADS = [0.2, 0.4, 0.6]
FILES = ("sweep.csv", "sweep.parquet", "sweep.json")


def same(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_sweep_matches_command(scenario: dict[str, Any], tmp_path: Path) -> None:
    two, cache = names()[:2], tmp_path / "cache"
    vary = {"traffic.search.load": LOADS, "protocol": two}
    sweep = tidegate.sweep(scenario, vary, seeds=2, cache=cache, out=tmp_path / "here")
    assert sweep.kept == 0 and not sweep.failed
    file = tmp_path / "scenario.toml"
    file.write_text(tidegate._arguments.scenario(scenario)[1])
    done = subprocess.run(
        [
            "tidegate",
            "sweep",
            file,
            "--vary",
            "traffic.search.load=0.2..0.6:0.2",
            "--vary",
            f"protocol={','.join(two)}",
            "--seeds",
            "1..2",
            "--cache",
            cache,
            "--out",
            tmp_path / "there",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "12 of them cached" in done.stdout
    same(tmp_path / "here", tmp_path / "there")
    # The table equals that of the file, and cached runs are reused.
    assert pa.table(sweep.table).equals(pq.read_table(tmp_path / "there" / "sweep.parquet"))
    assert tidegate.sweep(scenario, vary, seeds=2, cache=cache).kept == 12
    read = tidegate.read(tmp_path / "there")
    assert isinstance(read, Sweep)
    assert read.points == sweep.points and read.keys == (
        "traffic.search.load",
        "transport.protocol",
    )
    # Means of points equal those of rows.
    rows = pl.DataFrame(sweep.table).filter(
        (pl.col("metric") == "goodput_total_gbps")
        & (pl.col("label") == "search")
        & (pl.col("traffic.search.load") == 0.4)
        & (pl.col("transport.protocol") == two[1])
    )
    assert rows.height == 2
    (metric,) = [
        one
        for one in sweep.points[3].metrics
        if one.metric == "goodput_total_gbps" and one.label == "search"
    ]
    assert sweep.points[3].values == (0.4, two[1])
    assert metric.values == tuple(rows["value"])
    assert metric.mean == pytest.approx(rows["value"].mean())


def test_sweep_warnings(scenario: dict[str, Any], tmp_path: Path) -> None:
    cut = {**scenario, "drain": "0ms"}
    out, vary = tmp_path / "out", {"traffic.search.load": [0.8, 0.9]}
    with pytest.warns(tidegate.TidegateWarning, match="did not finish") as warned:
        sweep = tidegate.sweep(cut, vary, cache=False, out=out)
    assert [str(one.message) for one in warned] == list(sweep.warnings)
    read = tidegate.read(out)
    assert isinstance(read, Sweep) and read.warnings == sweep.warnings


def test_sweep_modes_and_files(scenario: dict[str, Any], tmp_path: Path) -> None:
    durations = ["0.4ms", "0.5ms", "0.6ms"]
    vary: dict[str, list[Any]] = {"traffic.search.load": LOADS, "duration": durations}
    together = tidegate.sweep(scenario, vary, zip=True, cache=False)
    assert [point.values for point in together.points] == list(zip(LOADS, durations, strict=True))
    some = tidegate.sweep(scenario, vary, random=4, search_seed=2, cache=False)
    assert len(some.points) == 4
    text = tidegate._arguments.scenario(scenario)[1]
    (tmp_path / "scenario.toml").write_text(text)
    file = tmp_path / "sweep.toml"
    file.write_text(
        "scenario = 'scenario.toml'\nmode = 'zip'\n[[axis]]\nkey = 'traffic.search.load'\n"
        f"values = {LOADS}\n[[axis]]\nkey = 'duration'\nvalues = {durations}\n"
    )
    assert tidegate.sweep(file, cache=False).points == together.points
    forecast = tidegate.forecast(scenario, vary, cache=False)
    assert (forecast.runs, forecast.kept) == (9, 0) and forecast.packet_hops > 0
    assert forecast.bound == "about"
    refused: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: tidegate.sweep(scenario), "--vary"),
        (lambda: tidegate.sweep(scenario, vary, zip=True, random=2), "--random"),
        (lambda: tidegate.sweep(scenario, vary, cache=False, client=True), "--no-cache"),
    )
    for wrong, words in refused:
        with pytest.raises(tidegate.UsageError, match=words):
            wrong()
    with pytest.raises(tidegate.ScenarioError, match=r"traffic\.search\.load"):
        tidegate.sweep(scenario, {"traffic.search.load": ["much"]}, cache=False)


def test_batches() -> None:
    runs = list(range(100))
    assert [len(one) for one in batches(runs, 10.0, 4)] == [6] * 16 + [4]
    assert [len(one) for one in batches(runs, 0.001, 4)] == [25] * 4
    assert [len(one) for one in batches(runs, 1000.0, 4)] == [1] * 100
    # No worker has joined yet: the number of threads is zero.
    assert [len(one) for one in batches(runs, 0.001, 0)] == [100]
    assert [one for batch in batches(runs, 7.0, 3) for one in batch] == runs


def workers(client: Client) -> list[int]:
    """Return the processes of the workers."""
    return list(client.run(os.getpid).values())


def test_killed_worker(
    scenario: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run per batch, so that many are left when a worker is killed.
    monkeypatch.setattr("tidegate._cluster.BATCH_SECONDS", 0.0)
    vary = {"traffic.search.load": LOADS, "protocol": names()[:2]}
    longer = {"duration": "4ms"}
    tidegate.sweep(scenario, vary, seeds=3, set=longer, cache=False, out=tmp_path / "alone")
    cache = tmp_path / "cache"
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        victim = workers(client)[0]
        killed: list[int] = []

        def kill() -> None:
            while len(list(cache.glob("*.sz"))) < 3:
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            killed.append(len(list(cache.glob("*.sz"))))

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        sweep = tidegate.sweep(
            scenario,
            vary,
            seeds=3,
            set=longer,
            cache=cache,
            client=client,
            out=tmp_path / "workers",
        )
        killer.join(timeout=1)
        assert killed and killed[0] < 18, "no worker was killed during the sweep"
        assert victim not in workers(client)
        # All runs of the table were executed by workers.
        assert sweep.kept == 18
        # A second call executes no run.
        assert (
            tidegate.sweep(scenario, vary, seeds=3, set=longer, cache=cache, client=client).kept
            == 18
        )
    same(tmp_path / "alone", tmp_path / "workers")


def test_local_workers(scenario: dict[str, Any], tmp_path: Path) -> None:
    vary = {"traffic.search.load": LOADS}
    sweep = tidegate.sweep(scenario, vary, cache=tmp_path / "cache", client=True)
    assert sweep.kept == 3
    alone = tidegate.sweep(scenario, vary, cache=False)
    assert pa.table(alone.table).equals(pa.table(sweep.table))


def test_worker_errors_are_raised(
    scenario: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._native.build", lambda: "another")
    with pytest.raises(tidegate.RunError, match="another version"):
        tidegate.sweep(scenario, {"traffic.search.load": LOADS}, cache=tmp_path / "c", client=True)
