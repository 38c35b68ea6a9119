"""Figures agree with results."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import polars as pl
import pytest
from matplotlib import colors

import tidegate
from conftest import larger, names
from tidegate import _colors, plot
from tidegate.results import Comparison


@pytest.fixture
def comparison(scenario: dict[str, Any]) -> Comparison:
    return tidegate.compare(scenario, names()[:3])


def protocol_colors() -> dict[str, str]:
    return {one.name: _colors.on_white(one.color) for one in tidegate.protocols()}


def test_distributions_match_rows(comparison: Comparison, tmp_path: Path) -> None:
    cdf, ccdf = plot.cdf(comparison), plot.ccdf(comparison, "fct_us", label="search")
    for axes, column, is_tail in ((cdf, "slowdown", False), (ccdf, "fct_us", True)):
        for line, run in zip(axes.get_lines(), comparison.runs, strict=True):
            assert line.get_label() == run.protocol
            assert colors.same_color(line.get_color(), protocol_colors()[run.protocol])
            shares = larger(run, column)
            for x, y in zip(*line.get_data(), strict=True):
                assert y == pytest.approx(shares[x] if is_tail else 1 - shares[x])
        assert axes.figure.get_size_inches()[0] == plot.COLUMN
        assert axes.get_legend() is not None
    assert cdf.get_xlabel() == "slowdown" and ccdf.get_xlabel() == "completion time (µs)"
    plot.save(cdf, tmp_path / "cdf.pdf")
    written = (tmp_path / "cdf.pdf").read_bytes()
    assert b"/FontFile2" in written and b"/Type3" not in written


def test_unfinished_messages_are_censored(scenario: dict[str, Any]) -> None:
    run = tidegate.run(scenario, set={"drain": "0ms", "traffic.search.load": 0.9})
    fct = run.summary.fct["all"]
    assert fct.unfinished > 0.01 * fct.count
    (line,) = plot.cdf(run).get_lines()
    drawn = dict(zip(*line.get_data(), strict=True))
    shares = larger(run, "slowdown")
    assert drawn == pytest.approx({x: 1 - shares[x] for x in drawn})
    assert max(drawn.values()) == pytest.approx(fct.slowdown.reach)
    # The median is where the distribution crosses one half.
    assert min(x for x, share in drawn.items() if share >= 0.5) == fct.slowdown.p50
    axes = plot.by_size(run, "p99")
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
    open_ = [one for one in fct.by_size if (one.slowdown.reach or 0) < 0.99 or one.count < 100]
    assert len(hollow) == 1
    assert list(hollow[0].get_ydata()) == [one.slowdown.p99 for one in open_ if one.slowdown.p99]


def test_sizes_match_summary(comparison: Comparison) -> None:
    axes = plot.by_size(comparison, "p50", label="search")
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks[:2] == ["1–10\nKB", "10–100\nKB"]
    for line, run in zip(axes.get_lines(), comparison.runs, strict=True):
        sizes = run.summary.fct["search"].by_size
        assert list(line.get_ydata()) == [one.slowdown.p50 for one in sizes]


def test_queue_of_longest_port(comparison: Comparison) -> None:
    axes = plot.queue(comparison)
    first = pl.DataFrame(comparison.runs[0].timeseries).filter(pl.col("quantity") == "queue_bytes")
    means = first.group_by("from", "to").agg(pl.col("value").mean()).sort("value")
    longest = means.row(-1, named=True)
    assert f"{longest['from']} → {longest['to']}" in axes.get_ylabel()
    own = first.filter((pl.col("from") == longest["from"]) & (pl.col("to") == longest["to"])).sort(
        "time_us"
    )
    x, y = axes.get_lines()[0].get_data()
    assert np.allclose(np.asarray(x) * 1e3, own["time_us"])
    assert np.allclose(np.asarray(y) * 1e3, own["value"])
    named = plot.queue(comparison, (longest["from"], longest["to"]))
    assert np.allclose(named.get_lines()[0].get_ydata(), y)


def test_sweeps_have_bands(scenario: dict[str, Any]) -> None:
    two = names()[:2]
    vary = {"traffic.search.load": [0.2, 0.4], "protocol": two}
    sweep = tidegate.sweep(scenario, vary, seeds=3, cache=False)
    axes = plot.metric(sweep, "slowdown_p99")
    # Hollow markers have no entry in the legend.
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == two
    for i, (line, band) in enumerate(zip(lines, axes.collections, strict=True)):
        assert colors.same_color(line.get_color(), protocol_colors()[two[i]])
        low_and_high = band.get_paths()[0].vertices
        for load, mean in zip(*line.get_data(), strict=True):
            (point,) = [one for one in sweep.points if one.values == (load, two[i])]
            (metric,) = [
                one
                for one in point.metrics
                if one.metric == "slowdown_p99" and one.min_bytes is None
            ]
            assert mean == metric.mean and metric.half_width is not None
            heights = low_and_high[np.isclose(low_and_high[:, 0], load), 1]
            # The band is limited to slowdowns of at least one.
            least = max(metric.mean - metric.half_width, 1)
            assert np.min(heights) == pytest.approx(least)
            assert np.max(heights) == pytest.approx(metric.mean + metric.half_width)
    assert axes.get_ylabel() == "slowdown, 99th percentile"
    over_all = plot.metric(sweep, "goodput_total_gbps", label="long")
    assert over_all.get_ylabel() == "goodput, total (Gbit/s)"
    for wrong, words in (
        (lambda: plot.metric(sweep, "speed"), "name: found 'speed'"),
        (lambda: plot.metric(sweep, "goodput_total_gbps"), "label: found none"),
        (lambda: plot.metric(sweep, "slowdown_p99", label="nobody"), "label: found 'nobody'"),
        (lambda: plot.metric(sweep, "slowdown_p99", x="protocol"), "x: found 'protocol'"),
        (lambda: plot.metric(sweep, "size_slowdown_p99"), "a value for each range of sizes"),
        (lambda: plot.metric(sweep.points, "slowdown_p99"), "of: found tuple"),
    ):
        with pytest.raises(tidegate.UsageError, match=words):
            wrong()


def test_aggregates_are_drawn(scenario: dict[str, Any]) -> None:
    two = names()[:2]
    aggregate = tidegate.compare(scenario, two, seeds=3)
    axes = plot.metric(aggregate, "slowdown_p99", label="search")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == two
    assert axes.get_ylabel() == "slowdown, 99th percentile"
    for at, run in enumerate(aggregate.runs):
        (metric,) = [one for one in run.metrics if one.metric == "slowdown_p99"]
        points, _, (bar,) = axes.containers[at].lines
        assert list(points.get_data()[1]) == [metric.mean]
        assert colors.same_color(points.get_color(), protocol_colors()[run.protocol])
        low, high = (end[1] for end in bar.get_segments()[0])
        assert metric.half_width is not None
        assert low == pytest.approx(max(metric.mean - metric.half_width, 1))
        assert high == pytest.approx(metric.mean + metric.half_width)
    sizes = plot.by_size(aggregate, "p50")
    lines = [line for line in sizes.get_lines() if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == two and len(sizes.collections) == 2
    means = [one.mean for one in aggregate.runs[0].metrics if one.metric == "size_slowdown_p50"]
    assert list(lines[0].get_ydata()) == means
    # The value of a single seed has no band.
    single = [dataclasses.replace(one, half_width=None) for one in aggregate.runs[0].metrics]
    alone = dataclasses.replace(
        aggregate, runs=(dataclasses.replace(aggregate.runs[0], metrics=tuple(single)),)
    )
    (band,) = plot.by_size(alone, "p50").collections
    assert not band.get_paths()
    for wrong, words in (
        (lambda: plot.metric(aggregate, "speed"), "name: found 'speed'"),
        (lambda: plot.metric(aggregate, "size_slowdown_p99"), "`by_size` draws those"),
        (lambda: plot.by_size(aggregate, "p999"), "no aggregate has by size"),
        (lambda: plot.by_size(aggregate, label="x"), "label: found 'x', expected one of 'search'"),
        (lambda: plot.cdf(aggregate), "`metric` and `by_size` draw an aggregate"),
    ):
        with pytest.raises(tidegate.UsageError, match=words):
            wrong()


def test_protocols_differ_in_grey() -> None:
    known = plot.looks(list(protocol_colors()))
    assert len({(look.marker, str(look.dash)) for look in known}) == len(known)
    assert all(one.marker in plot._MARKERS for one in tidegate.protocols())
    own = set(plot._MARKERS.values())
    assert not own & set(plot._SPARE_MARKERS)
    # Points without lines have no dashes.
    alike = plot.looks(["dctcp", "dctcp-rate", "eqds", "hpcc"])
    assert len({look.marker for look in alike}) < len(alike)
    points = plot._apart(alike)
    assert len({look.marker for look in points}) == len(points)
    assert points[0] == alike[0] and points[-1].marker == alike[-1].marker
    assert len({look.marker for look in plot._apart(known[:15])}) == 15


def test_mixed_labels_warning(scenario: dict[str, Any]) -> None:
    other = {"kind": "poisson", "label": "small", "sizes": "2KB", "load": 0.1}
    run = tidegate.run({**scenario, "traffic": [*scenario["traffic"], other]})
    with pytest.warns(tidegate.TidegateWarning, match="several labels .* 'search', 'small'"):
        plot.cdf(run)


def test_sweep_axis_and_legend(scenario: dict[str, Any]) -> None:
    vary = {"fabric.host_link.delay": ["4us", "500ns", "1us"], "traffic.search.load": [0.1, 0.2]}
    sweep = tidegate.sweep(scenario, vary, cache=False)
    axes = plot.metric(sweep, "slowdown_p99")
    assert axes.get_xlabel() == "delay of host_link (µs)"
    assert list(axes.get_lines()[0].get_xdata()) == [0.5, 1, 4]
    legend = axes.get_legend()
    assert legend is not None and legend.get_title().get_text() == "load of search"
    words = tidegate.sweep(scenario, {"switch.routing": ["ecmp", "spray"]}, cache=False)
    with pytest.raises(tidegate.UsageError, match=r"there is none among switch\.routing"):
        plot.metric(words, "slowdown_p99")


def test_line_names_are_distinct(scenario: dict[str, Any]) -> None:
    run = tidegate.run(scenario)
    name = f"{run.protocol}, two racks, 1"
    twice = [line.get_label() for line in plot.cdf([run, run]).get_lines()]
    assert twice == [f"{name} (1)", f"{name} (2)"]
    named = plot.by_size({"load 0.3": run, "load 0.6": run}, "p50").get_lines()
    assert [line.get_label() for line in named][:2] == ["load 0.3", "load 0.6"]
    looks = plot.looks([run.protocol] * 6)
    assert len({(look.color, look.dash) for look in looks}) == 6


def test_lines_have_the_colors_of_reports() -> None:
    text = (Path(__file__).parents[2] / "crates/cli/tests/report/colors.json").read_text("utf-8")
    for color, (white, _, exported) in json.loads(text).items():
        lines = [_colors.on_white(color, earlier) for earlier in range(3)]
        assert [lines, [_colors.on_dark(line) for line in lines]] == [white, exported]
        assert all(_colors.contrast(line, _colors.WHITE) >= 3 for line in lines)


def test_lines_of_one_protocol_differ(scenario: dict[str, Any]) -> None:
    runs = [tidegate.run(scenario, seed=seed) for seed in (1, 2)]
    first, second = plot.cdf(runs).get_lines()
    assert second.get_color() == _colors.on_white(str(first.get_color()), 1) != first.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert (first.get_label(), second.get_label()) == tuple(
        f"{runs[0].protocol}, two racks, {seed}" for seed in (1, 2)
    )
    looks = plot.looks([*protocol_colors(), "a + b", "c + d"])
    assert len({look.color for look in looks[:-2]}) == len(protocol_colors())
    assert looks[-2] != looks[-1]
    for name, look in zip(protocol_colors(), looks, strict=False):
        assert plot.looks([name])[0] == look


def test_wrong_arguments(comparison: Comparison) -> None:
    quiet = dataclasses.replace(comparison.runs[0], timeseries=None)
    for wrong, words in (
        (lambda: plot.cdf(comparison, "speed"), "column: found 'speed'"),
        (lambda: plot.cdf(comparison, "src"), "column: found 'src'"),
        (lambda: plot.cdf(comparison, label="nobody"), "label: found 'nobody'"),
        (lambda: plot.cdf(7), "of: found int"),
        (lambda: plot.by_size(comparison, label="nobody"), "label: found 'nobody'"),
        (lambda: plot.by_size(comparison, "p95"), "percentile: found 'p95'"),
        (lambda: plot.queue(comparison, ("a", "b")), r"link: found \('a', 'b'\), expected a port"),
        (lambda: plot.queue(quiet), "output.timeseries"),
    ):
        with pytest.raises(tidegate.UsageError, match=words):
            wrong()


def test_matplotlib_is_imported_lazily() -> None:
    code = "import sys, tidegate; print(*(set(sys.modules) & {'matplotlib', 'distributed'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "\n", done.stderr


def test_missing_packages_are_named() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import tidegate.plot"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "tidegate.plot needs pyarrow: pip install 'tidegate[plot]'" in done.stderr


def test_decade_labels() -> None:
    bounds = [0, 10**3, 10**4, 10**5, 10**6, 10**7, float("inf")]
    labels = [plot._decade(int(least), below) for least, below in itertools.pairwise(bounds)]
    expected = ["< 1 KB", "1–10 KB", "10–100 KB", "0.1–1 MB", "1–10 MB", "≥ 10 MB"]
    assert [one.replace("\n", " ") for one in labels] == expected
