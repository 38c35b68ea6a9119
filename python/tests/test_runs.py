"""Runs and comparisons: arguments, results, and agreement with the command."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from conftest import larger, names
from tidegate.results import Aggregate, Comparison, Run


def steady(summary: Any) -> dict[str, Any]:
    """Return a summary without values that vary between runs."""
    data = dataclasses.asdict(summary)
    data["engine"] = {key: data["engine"][key] for key in ("digest", "packet_hops")}
    return data


def command(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["tidegate", *map(str, args)], capture_output=True, text=True)


def test_run_matches_command(scenario: dict[str, Any], tmp_path: Path) -> None:
    run = tidegate.run(scenario)
    file = tmp_path / "scenario.toml"
    file.write_text(tidegate._arguments.scenario(scenario)[1])
    out = tmp_path / "out"
    assert command("run", file, "--out", out).returncode == 0
    written = tidegate.read(out)
    assert isinstance(written, Run)
    assert steady(run.summary) == steady(written.summary)
    assert run.protocol == written.protocol == scenario["transport"]["protocol"]
    for name in ("flows", "timeseries"):
        table = pa.table(getattr(run, name))
        assert table.equals(pa.table(getattr(written, name)))
        assert table.equals(pq.read_table(out / f"{name}.parquet"))
        assert len(getattr(run, name)) == table.num_rows > 0
    assert written.folder == out and run.folder is None


def test_scenario_types(scenario: dict[str, Any], tmp_path: Path) -> None:
    text = tidegate._arguments.scenario(scenario)[1]
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    hashes = {tidegate.load(given).hash for given in (scenario, text, file, str(file))}
    assert len(hashes) == 1
    plan = tidegate.load(scenario, set={"traffic.search.load": 0.7, "duration": "2ms"}, seed=9)
    assert plan.hash not in hashes and plan.seed == 9
    assert plan.resolved["traffic"][0]["load"] == 0.7
    assert (
        plan.hash
        == tidegate.load(scenario, set=["traffic.search.load=0.7", "duration=2ms"], seed=9).hash
    )


def test_rows_in_arrow_libraries(scenario: dict[str, Any]) -> None:
    flows = tidegate.run(scenario).flows
    arrow = pa.table(flows)
    frame = pl.DataFrame(flows)
    assert frame.columns == arrow.column_names == flows.columns
    assert frame.height == len(flows)
    assert frame["fct_us"].to_list() == arrow["fct_us"].to_pylist()
    assert arrow.to_pandas().shape == frame.shape
    from_arrow = getattr(pd.DataFrame, "from_arrow", None)  # Since pandas 3.
    assert from_arrow is None or from_arrow(flows).shape == frame.shape
    assert duckdb.sql("select count(*) from flows").fetchall() == [(frame.height,)]
    assert pa.schema(flows) == arrow.schema
    # Tables can be read repeatedly.
    assert pa.table(flows).equals(arrow)


@pytest.mark.parametrize("load", [0.2, 0.9])
def test_percentiles_match_summary(scenario: dict[str, Any], load: float) -> None:
    small = {"traffic.search.sizes": "20KB", "drain": "0ms"}
    run = tidegate.run(scenario, set={**small, "traffic.search.load": load})
    rows = pl.DataFrame(run.flows).filter(pl.col("measured"))
    assert rows["label"].unique().to_list() == ["search"], "an unlimited flow is no message"
    assert (rows["start_us"] >= run.summary.warmup_seconds * 1e6).all()
    for label in ("all", "search"):
        fct = run.summary.fct[label]
        assert rows.height == fct.count > 100
        assert rows["fct_us"].null_count() == fct.unfinished
        for column, percentiles in (
            ("slowdown", dataclasses.asdict(fct.slowdown)),
            ("fct_us", {"p50": fct.p50_us, "p99": fct.p99_us, "p999": fct.p999_us}),
        ):
            shares = larger(run, column)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
                # Percentiles are exact below 65,536 messages per size and label.
                at = (value for value, more in shares.items() if more <= 1 - share + 1e-9)
                found = next(at, max(shares))
                assert found == pytest.approx(percentiles[name], abs=1e-6), name
            reach = fct.slowdown.reach if column == "slowdown" else fct.reach
            assert reach == pytest.approx(1 - shares[max(shares)])


def test_percentiles_from_histogram(
    scenario: dict[str, Any],
) -> None:
    """Above 65,536 messages, summaries use a histogram with an error of 0.5 %."""
    traffic = [{"kind": "poisson", "sizes": "1KB", "load": 0.3}]
    run = tidegate.run({**scenario, "duration": "3.6ms", "traffic": traffic, "flows": []})
    slowdowns = pl.DataFrame(run.flows).filter(pl.col("measured"))["slowdown"].drop_nulls().sort()
    assert len(slowdowns) > 65_536
    slowdown = run.summary.fct["all"].slowdown
    for share, percentile in ((0.5, slowdown.p50), (0.99, slowdown.p99), (0.999, slowdown.p999)):
        exact = slowdowns[math.ceil(share * len(slowdowns) - 1e-9) - 1]
        assert percentile == pytest.approx(exact, rel=0.005)


def test_summary_keys_are_fields(scenario: dict[str, Any], tmp_path: Path) -> None:
    """Dataclasses have all keys that the command writes."""
    extra = {
        "faults": {"loss": 1e-4},
        "switch": {"buffer": "2MB", "pfc": {}},
        "traffic": [
            *scenario["traffic"],
            {"kind": "closed-loop", "label": "ask", "request": "1KB", "reply": "9KB"},
            {"kind": "collective", "label": "ring", "op": "ring-all-reduce", "size": "100KB"},
        ],
    }
    circuits = {
        "fabric": {"kind": "reconfigurable", "racks": 2, "hosts_per_rack": 2},
        "flows": [{"src": "h0", "dst": "h3"}],
    }
    for changed in (scenario, {**scenario, **extra}, {**scenario, **circuits}):
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        run = tidegate.run(changed, out=out)
        compare(json.loads((out / "summary.json").read_text()), run.summary, "summary")


def compare(data: Any, value: Any, where: str) -> None:
    """Compare a dataclass with the JSON that it was created from."""
    if dataclasses.is_dataclass(value):
        known = {
            one.name.rstrip("_"): getattr(value, one.name) for one in dataclasses.fields(value)
        }
        assert set(data) <= set(known), where
        for key, one in data.items():
            compare(one, known[key], f"{where}.{key}")
    elif isinstance(value, tuple):
        assert len(data) == len(value), where
        for i, one in enumerate(data):
            compare(one, value[i], f"{where}[{i}]")
    elif isinstance(value, dict):
        assert set(data) == set(value), where
        for key, one in data.items():
            compare(one, value[key], f"{where}.{key}")
    else:
        assert data == value, where


def test_comparison_runs(scenario: dict[str, Any], tmp_path: Path) -> None:
    two = names()[:2]
    comparison = tidegate.compare(scenario, two, out=tmp_path / "out")
    assert [run.protocol for run in comparison.runs] == two
    again = tidegate.compare(scenario, ",".join(two))
    read = tidegate.read(tmp_path / "out")
    assert isinstance(read, Comparison)
    for name in two:
        flows = pa.table(comparison[name].flows)
        assert flows.equals(pa.table(again[name].flows)) and flows.equals(
            pa.table(read[name].flows)
        )
        assert steady(again[name].summary) == steady(read[name].summary)
        assert set(flows["protocol"].to_pylist()) == {name}
    assert not pa.table(again[two[0]].flows).equals(pa.table(again[two[1]].flows))


def test_seeds_means_and_intervals(scenario: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for several in (
        tidegate.run(scenario, seeds=3, out=out),
        tidegate.run(scenario, seeds=[1, 2, 3]),
        tidegate.run(scenario, seeds="1..3"),
    ):
        assert several.seeds == (1, 2, 3)
        (metric,) = [
            one
            for one in several.runs[0].metrics
            if one.metric == "slowdown_p99" and one.min_bytes is None
        ]
        single = tidegate.run(scenario, seed=2).summary.fct["search"].slowdown.p99
        assert metric.values[1] == single
        assert metric.half_width is not None and metric.half_width > 0
    assert isinstance(tidegate.read(out), Aggregate)
    assert isinstance(tidegate.read(out / "seed-2"), Run)
    assert tidegate.compare(scenario, names()[:2], seeds=[7]).seeds == (7,)


def test_partitions_do_not_affect_results(scenario: dict[str, Any], tmp_path: Path) -> None:
    # The fabric is too small for a second thread, so partitions are set explicitly.
    scenario["fabric"]["racks"] = 3

    def content(partitions: int | None) -> dict[str, Any]:
        out = tmp_path / str(partitions)
        run = tidegate.run(scenario, partitions=partitions, threads=partitions, out=out)
        assert run.summary.engine.threads == (partitions or 1)
        files = ("flows.parquet", "timeseries.parquet")
        tables = {name: (out / name).read_bytes() for name in files}
        return {"summary": steady(run.summary), **tables}

    whole = content(None)
    for partitions in (1, 2, 3):
        assert content(partitions) == whole, partitions

    many = [
        tidegate.compare(scenario, names()[:2], partitions=partitions, threads=2)
        for partitions in (1, 2)
    ]
    for one, two in zip(*(comparison.runs for comparison in many), strict=True):
        assert (one.summary.engine.threads, two.summary.engine.threads) == (1, 2)
        assert steady(one.summary) == steady(two.summary)
        assert pa.table(one.flows).equals(pa.table(two.flows))


def test_catalog_matches_command() -> None:
    listed = json.loads(command("protocols", "--json").stdout)
    for one, info in zip(tidegate.protocols(), listed, strict=True):
        compare(info, one, info["name"])
    assert tidegate.schema() == json.loads(command("schema").stdout)
    figures = tidegate.figures()
    compare(json.loads(command("reproduce", "--list", "--json").stdout), tuple(figures), "figures")


def test_reproduce_and_cache(tmp_path: Path) -> None:
    figure = min(tidegate.figures(), key=lambda one: (one.runs == 0 or not one.claims, one.runs))
    what = f"{figure.paper}/{figure.figure}"
    claims = tidegate.reproduce(what, quick=True, out=tmp_path / "out", cache=tmp_path / "cache")
    assert {claim.claim for claim in claims} == set(figure.claims)
    assert (tmp_path / "out" / "report.html").exists() and any((tmp_path / "cache").iterdir())


def test_pickle(scenario: dict[str, Any], tmp_path: Path) -> None:
    kept = tidegate.run(scenario), tidegate.run(scenario, out=tmp_path / "out")
    for run in kept:
        again = pickle.loads(pickle.dumps(run))
        assert again.summary == run.summary and again.folder == run.folder
        assert pa.table(again.flows).equals(pa.table(run.flows))
        assert pa.table(again.timeseries).equals(pa.table(run.timeseries))
    comparison = tidegate.compare(scenario, names()[:2])
    again = pickle.loads(pickle.dumps(comparison))
    assert [run.protocol for run in again.runs] == names()[:2]


def test_aggregate_differences_and_table(scenario: dict[str, Any]) -> None:
    two = names()[:2]
    aggregate = tidegate.compare(scenario, two, seeds=3, baseline=two[1])
    assert aggregate.baseline == two[1]
    first, base = ({(m.label, m.metric, m.min_bytes): m for m in r.metrics} for r in aggregate.runs)
    key = ("search", "slowdown_p99", None)
    difference = first[key].difference
    assert difference is not None and base[key].difference is None
    pairs = zip(first[key].values, base[key].values, strict=True)
    assert difference.values == tuple(a - b for a, b in pairs if a is not None and b is not None)
    assert difference.mean == pytest.approx(sum(filter(None, difference.values)) / 3)
    lines = repr(aggregate).splitlines()
    assert lines[0] == f"<Aggregate: two racks, 3 seeds: {', '.join(two)}>"
    assert lines[1].split()[:2] == ["label", "protocol"] and "slowdown p50" in lines[1]
    assert any(line.startswith("search") and " ± " in line for line in lines)
    assert f"Difference from {two[1]} by seed, n = 3" in lines
    with pytest.raises(tidegate.UsageError, match="--baseline: `x` is not among the protocols"):
        tidegate.compare(scenario, two, seeds=2, baseline="x")
    with pytest.raises(tidegate.UsageError, match="--baseline: compares seed by seed and needs"):
        tidegate.compare(scenario, two, baseline=two[0])
    sweep = tidegate.sweep(scenario, {"protocol": two}, seeds=2, baseline=two[1], cache=False)
    assert sweep.baseline == two[1]
    away = [any(one.difference for one in point.metrics) for point in sweep.points]
    assert away == [True, False] and "difference_mean" in sweep.table.columns
