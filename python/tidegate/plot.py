"""Figures for papers, with matplotlib (`pip install 'tidegate[plot]'`).

Every function draws on the given axes, or on a new figure of one column's width, and returns the
axes, so that matplotlib can change any detail. Protocols have the same colours and markers
everywhere in tidegate. If a protocol has several lines, the others are dashed and darker, as in
reports. The legend names runs by the properties that differ (protocol, name, seed), or by
the keys of a dictionary: `{"load 0.3": run}`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, ParamSpec, TypeAlias

from tidegate import _colors, _native
from tidegate._arguments import Path
from tidegate._facade import protocols
from tidegate._progress import warn
from tidegate.errors import UsageError
from tidegate.results import Aggregate, Comparison, Fct, Metric, Run, Sweep

try:
    import matplotlib as mpl
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from matplotlib import colors
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogFormatter
except ModuleNotFoundError as missing:
    message = f"tidegate.plot needs {missing.name}: pip install 'tidegate[plot]'"
    raise ModuleNotFoundError(message, name=missing.name) from missing

Runs: TypeAlias = "Run | Comparison | Iterable[Run] | Mapping[str, Run]"
"""The runs to draw, optionally with names."""

COLUMN = 3.33
"""Width of one column of a two-column paper, in inches."""

PAGE = 7.0
"""Width of both columns, in inches."""

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.4,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}
"""The style of figures, as matplotlib's `rcParams`."""

_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "star": "*",
    "x": "X",
}
_SPARE_MARKERS = ("p", "<", "H", ">", "d", "h", "8")
"""Markers that no protocol has."""
_DASHES: Sequence[Any] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 1.5)))
_DASH_NAMES = ("solid", "dash", "dot")
"""Names in the catalog, in the order of `_DASHES`."""
_POINTS = 1000
"""Maximum number of points of a distribution below its tail, and of the tail."""
_SIZES = 10 ** np.arange(3, 8)
"""Lower bounds of size classes in bytes, as in summaries."""
_NOTHING = 1e-12
"""Tolerance for shares that are zero except for rounding."""
_MOST_WEIGHT = 2.0
"""Number of values for which a known value counts on average, from which most are censored."""
_COLUMNS = ("slowdown", "fct_us")
"""Columns of which distributions can be drawn."""


@dataclass(frozen=True)
class Look:
    """The look of a line."""

    color: str
    marker: str
    dash: Any

    def line(self) -> dict[str, Any]:
        """Return the style without a marker."""
        return {"color": self.color, "linestyle": self.dash}

    def points(self) -> dict[str, Any]:
        """Return the style with a marker at each point."""
        return {**self.line(), "marker": self.marker}


@functools.cache
def _catalog() -> dict[str, tuple[str, str, int]]:
    return {
        one.name: (one.color, _MARKERS.get(one.marker, "o"), _DASH_NAMES.index(one.dash))
        for one in protocols()
    }


def looks(names: Sequence[str]) -> list[Look]:
    """Return the looks of protocols' lines; other names have colours of the palette."""
    catalog, palette = _catalog(), _native.palette()
    found = []
    for i, name in enumerate(names):
        if name in catalog:
            earlier = names[:i].count(name)
            color, marker, dash = catalog[name]
        else:
            earlier = i // len(palette)
            color, marker, dash = palette[i % len(palette)], "o", 0
        dash = (dash + earlier) % len(_DASHES)
        found.append(Look(_colors.on_white(color, earlier), marker, _DASHES[dash]))
    return found


def _apart(known: Sequence[Look]) -> list[Look]:
    """Return looks with different markers, as far as there are enough.

    Points without lines have no dashes: without colours, only markers distinguish them.
    """
    own = {look.marker for look in known}
    spare = iter([one for one in (*_SPARE_MARKERS, *_MARKERS.values()) if one not in own])
    found: list[Look] = []
    for look in known:
        is_taken = any(other.marker == look.marker for other in found)
        marker = next(spare, look.marker) if is_taken else look.marker
        found.append(replace(look, marker=marker))
    return found


def subplots(
    rows: int = 1, columns: int = 1, *, width: float = COLUMN, height: float | None = None
) -> tuple[Figure, Any]:
    """Create a figure of a width in inches, in the style of a paper, with its axes.

    The default height of a plot is two thirds of its width, but at least 1.8 inches.
    """
    if height is None:
        height = rows * max(width / columns / 1.5, 1.8)
    with mpl.rc_context(STYLE):
        return plt.subplots(rows, columns, figsize=(width, height))


def save(of: Axes | Figure, path: Path) -> None:
    """Write a figure, or that of axes, in the style of a paper: embedded fonts, 300 dpi."""
    figure = of.figure.figure
    with mpl.rc_context(STYLE):
        figure.savefig(path)


P = ParamSpec("P")


def _styled(draw: Callable[P, Axes]) -> Callable[P, Axes]:
    """Apply the style while drawing: matplotlib reads its settings then."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **more: P.kwargs) -> Axes:
        with mpl.rc_context(STYLE):
            return draw(*args, **more)

    return drawn


def _axes(given: Axes | None) -> Axes:
    if given is not None:
        return given
    axes = subplots()[1]
    assert isinstance(axes, Axes)
    return axes


def _legend(axes: Axes, title: str | None = None) -> None:
    """Place the legend above the plot, in as many columns as fit."""
    labels = axes.get_legend_handles_labels()[1]
    # In inches: the width of a letter of seven points, and the width of line and gap. The layout
    # makes axes wider later.
    widest = 0.052 * max(map(len, labels), default=0) + 0.45
    room = 1.1 * axes.get_position().width * axes.figure.figure.get_figwidth()
    axes.legend(
        title=title,
        alignment="left",
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        columnspacing=1.2,
        ncols=max(1, min(len(labels), int(room / widest))),
    )


def _runs(given: Runs) -> dict[str, Run]:
    """Name runs by protocol, and by name and seed if those are equal."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, Run | Comparison):
        given = given.runs if isinstance(given, Comparison) else [given]
    runs = list(given) if isinstance(given, Iterable) else [given]
    for one in runs:
        if not isinstance(one, Run):
            raise UsageError(
                f"of: found {type(one).__name__}, expected runs, a comparison, or a dictionary of "
                "runs; means over seeds have no rows: `metric` and `by_size` draw an aggregate"
            )
    titles = [run.protocol for run in runs]
    for more in ("name", "seed"):
        if len(set(titles)) < len(runs):
            values = [getattr(run.summary, more) for run in runs]
            titles = [f"{title}, {one}" for title, one in zip(titles, values, strict=True)]
    if len(set(titles)) < len(runs):
        titles = [f"{title} ({number})" for number, title in enumerate(titles, 1)]
    return dict(zip(titles, runs, strict=True))


def _lines(runs: dict[str, Run]) -> Iterator[tuple[Run, str, Look]]:
    """Return runs with their titles and looks."""
    drawn = looks([run.protocol for run in runs.values()])
    return zip(runs.values(), runs, drawn, strict=True)


def _values(run: Run, column: str, label: str | None) -> tuple[Any, Any]:
    """Return the sorted values of a column over measured messages, and the share above each.

    Shares are Kaplan-Meier estimates, as are percentiles of the summary: an unfinished message is
    censored at its age at the end of the run. Large messages are censored at lower slowdowns, so
    each size class has its own estimate.
    """
    if column not in _COLUMNS:
        raise UsageError(f"column: found {column!r}, expected one of {', '.join(_COLUMNS)}")
    rows = pa.table(run.flows)
    counts = rows["measured"]
    if label is not None:
        _fct(run, label)
        counts = pc.and_(counts, pc.equal(rows["label"], label)) if label != "all" else counts
    rows = rows.filter(counts)
    has_finished = rows["fct_us"].is_valid().to_numpy()
    over_us = (run.summary.sim_seconds + run.summary.drain_seconds) * 1e6
    took = rows[column].fill_null(0).to_numpy()
    bounds = over_us - rows["start_us"].to_numpy()
    groups = np.zeros(len(rows), dtype=int)
    if column == "slowdown":
        bounds = bounds / rows["ideal_us"].to_numpy()
        groups = np.searchsorted(_SIZES, rows["size_bytes"].to_numpy(), side="right")
    values, shares = [np.empty(0)], [np.empty(0)]
    for group in np.unique(groups):
        known = np.sort(took[has_finished & (groups == group)])
        cut = np.sort(bounds[~has_finished & (groups == group)])
        # Number of messages that took, or may have taken, at least as long as each value.
        left = len(known) - np.arange(len(known)) + len(cut) - np.searchsorted(cut, known)
        steps = -np.diff(np.cumprod(1 - 1 / left), prepend=1)
        values.append(known)
        shares.append(steps * (len(known) + len(cut)) / len(rows))
    known, steps = np.concatenate(values), np.concatenate(shares)
    order = np.argsort(known, kind="stable")
    known, steps = known[order], steps[order]
    # The estimate ends where the values that are at least as large count for more than two each.
    _, firsts = np.unique(known, return_index=True)
    weights = np.cumsum(steps[::-1])[::-1] * len(rows) / np.arange(len(steps), 0, -1)
    unknown = firsts[weights[firsts] > _MOST_WEIGHT + _NOTHING]
    end = unknown[0] if len(unknown) else len(known)
    # Remove rounding errors around zero.
    return known[:end], np.maximum(1 - np.cumsum(steps[:end]), 0)


def _few(n: int) -> Any:
    """Choose indices of `n` values to draw: evenly spaced, and denser towards the largest."""
    even = np.linspace(0, n - 1, min(n, _POINTS)).astype(int)
    tail = n - np.geomspace(1, n, min(n, _POINTS)).astype(int)
    return np.unique(np.concatenate([even, tail]))


def _distribution(
    of: Runs,
    column: str,
    label: str | None,
    axes: Axes | None,
    is_tail: bool,
) -> Axes:
    axes, runs = _axes(axes), _runs(of)
    if label is None:
        _one_label_of(runs.values())
    for run, title, look in _lines(runs):
        values, larger = _values(run, column, label)
        if len(values) == 0:
            continue
        x = np.unique(values[_few(len(values))])
        shares = larger[np.searchsorted(values, x, side="right") - 1]
        if is_tail:
            x, shares = x[shares > _NOTHING], shares[shares > _NOTHING]
        else:
            shares = 1 - shares
        axes.step(x, shares, where="post", label=title, **look.line())
    axes.set_xscale("log")
    _plainly(axes.xaxis)
    axes.set_xlabel(_axis_label(column))
    if is_tail:
        axes.set_yscale("log")
        _plainly(axes.yaxis)
        axes.set_ylabel("share that is larger")
    else:
        axes.set_ylabel("share of messages")
        axes.set_ylim(0, 1)
    _legend(axes)
    return axes


def _one_label_of(runs: Iterable[Run]) -> None:
    """Warn if messages of several labels are drawn together: their mix may differ by run."""
    groups = [group for run in runs for group in run.summary.groups if group.fct.count]
    labels = sorted({group.label for group in groups})
    if len(labels) > 1:
        known = ", ".join(map(repr, labels))
        warn([f"label: messages of several labels are drawn together; choose one of {known}"])


@_styled
def cdf(
    of: Runs,
    column: str = "slowdown",
    *,
    label: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the distribution of `slowdown` or `fct_us` over measured messages, or those of a label.

    It ends where unfinished messages hide the remaining values.
    """
    return _distribution(of, column, label, axes, is_tail=False)


@_styled
def ccdf(
    of: Runs,
    column: str = "slowdown",
    *,
    label: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw the share of messages with a larger `slowdown` or `fct_us`, on log axes: its tail."""
    return _distribution(of, column, label, axes, is_tail=True)


@_styled
def by_size(
    of: Runs | Aggregate,
    percentile: Literal["p50", "p99", "p999"] = "p99",
    *,
    label: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a percentile of the slowdown by message size, in decades; of all messages or a label.

    A hollow marker is a lower bound: too many messages of that size did not finish. For an
    aggregate, means with 95 % confidence bands are drawn; it has `p50` and `p99`.
    """
    axes = _axes(axes)
    if percentile not in _PERCENTILES:
        known = ", ".join(_PERCENTILES)
        raise UsageError(f"percentile: found {percentile!r}, expected one of {known}")
    if isinstance(of, Aggregate):
        bounds = _means_by_size(axes, of, percentile, label)
    else:
        bounds = _runs_by_size(axes, _runs(of), percentile, label)
    axes.set_xticks(range(len(bounds)), [_decade(*bound) for bound in bounds])
    axes.set_yscale("log")
    _plainly(axes.yaxis)
    axes.set_xlabel("message size")
    axes.set_ylabel(f"slowdown, {_PERCENTILES[percentile]}")
    _legend(axes)
    return axes


def _runs_by_size(
    axes: Axes, runs: dict[str, Run], percentile: str, label: str | None
) -> list[tuple[int, float]]:
    if label is None:
        _one_label_of(runs.values())
        label = "all"
    sizes = [one for run in runs.values() for one in _fct(run, label).by_size]
    bounds = sorted({(one.min_bytes, one.below_bytes or math.inf) for one in sizes})
    places = {least: place for place, (least, _) in enumerate(bounds)}
    share = {"p50": 0.5, "p99": 0.99, "p999": 0.999}[percentile]
    for run, title, look in _lines(runs):
        points = []
        for one in _fct(run, label).by_size:
            slowdown = getattr(one.slowdown, percentile)
            if slowdown is not None:
                reach = one.slowdown.reach
                if reach is None:  # Older results.
                    reach = 1 - one.unfinished / one.count
                is_bound = reach < share - _NOTHING
                is_maximum = share >= 0.99 and round(1000 * (1 - share)) * one.count < 1000
                points.append((places[one.min_bytes], slowdown, is_bound or is_maximum))
        _marked(axes, points, title, look)
    return bounds


def _means_by_size(
    axes: Axes, of: Aggregate, percentile: str, label: str | None
) -> list[tuple[int, float]]:
    name = f"size_slowdown_{percentile}"
    runs = [(run.protocol, [one for one in run.metrics if one.metric == name]) for run in of.runs]
    found = [one for _, metrics in runs for one in metrics]
    if not found:
        raise UsageError(f"percentile: found {percentile!r}, which no aggregate has by size")
    labels = sorted({one.label for one in found})
    if label is None and len(labels) > 1:
        raise UsageError(f"label: found none, expected one of {', '.join(map(repr, labels))}")
    if label is not None and label not in labels:
        raise UsageError(f"label: found {label!r}, expected one of {', '.join(map(repr, labels))}")
    own = labels[0] if label is None else label
    bounds = sorted(
        {(one.min_bytes or 0, one.below_bytes or math.inf) for one in found if one.label == own}
    )
    places = {least: place for place, (least, _) in enumerate(bounds)}
    drawn = looks([protocol for protocol, _ in runs])
    for (protocol, metrics), look in zip(runs, drawn, strict=True):
        points = sorted((places[one.min_bytes or 0], one) for one in metrics if one.label == own)
        _mean_line(axes, [(float(at), one) for at, one in points], protocol, look)
    return bounds


def _mean_line(axes: Axes, points: Sequence[tuple[float, Metric]], title: str, look: Look) -> None:
    """Draw means with markers, and 95 % confidence bands, limited to possible values.

    Bands are pale and have outlines with the dash of the line, so that other bands stay visible.
    """
    _marked(axes, [(at, one.mean, _is_hollow(one)) for at, one in points], title, look)
    low, high = _interval([one for _, one in points])
    where = [at for at, _ in points]
    axes.fill_between(
        where,
        low,
        high,
        facecolor=colors.to_rgba(look.color, 0.12),
        edgecolor=colors.to_rgba(look.color, 0.6),
        linestyle=look.dash,
        lw=0.5,
        zorder=1,
    )


def _is_hollow(one: Metric) -> bool:
    """Return whether a value is a lower bound, or a percentile of few values: their maximum."""
    return one.is_lower_bound or one.is_maximum


def _interval(metrics: Sequence[Metric]) -> tuple[Any, Any]:
    """Return the 95 % confidence interval of each mean; the value of a single seed has none."""
    least, most = _native.limits(metrics[0].metric) if metrics else (0.0, math.inf)
    half = np.array([math.nan if one.half_width is None else one.half_width for one in metrics])
    mean = np.array([one.mean for one in metrics])
    return np.maximum(mean - half, least), np.minimum(mean + half, most)


def _marked(
    axes: Axes, points: Sequence[tuple[float, float, bool]], title: str, look: Look
) -> None:
    """Draw a line with markers, which are hollow for lower bounds and maxima."""
    x, y = [point[0] for point in points], [point[1] for point in points]
    axes.plot(x, y, label=title, **look.points())
    hollow = [point for point in points if point[2]]
    if hollow:
        x, y = [point[0] for point in hollow], [point[1] for point in hollow]
        axes.plot(x, y, look.marker, color=look.color, markerfacecolor="white", zorder=3)


def _fct(run: Run, label: str) -> Fct:
    known = run.summary.fct
    if label not in known:
        raise UsageError(f"label: found {label!r}, expected one of {', '.join(known)}")
    return known[label]


def _decade(least: int, below: float) -> str:
    """Format a size class like `1–10 KB`, on two lines to save width."""
    unit, name = (10**6, "MB") if below >= 10**6 else (10**3, "KB")
    if least == 0:
        sizes = f"< {below / unit:g}"
    elif math.isinf(below):
        sizes = f"≥ {least / unit:g}"
    else:
        sizes = f"{least / unit:g}–{below / unit:g}"
    return f"{sizes}\n{name}"


def _plainly(axis: Axis) -> None:
    """Label log axes with plain numbers: 1, 10, 100; if few are visible, also 2, 3 and 4."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(LogFormatter())


@_styled
def queue(
    of: Runs,
    link: tuple[str, str] | None = None,
    *,
    axes: Axes | None = None,
) -> Axes:
    """Draw the queue at a switch port over time; `link` names its ends (from, to).

    The default is the link with the longest mean queue in the first run. The scenario must request
    time series (`output.timeseries`).
    """
    axes = _axes(axes)
    for run, title, look in _lines(_runs(of)):
        if run.timeseries is None:
            raise UsageError("a run has no time series: set output.timeseries in its scenario")
        rows = pa.table(run.timeseries)
        rows = rows.filter(pc.equal(rows["quantity"], "queue_bytes"))
        if link is None:
            means = rows.group_by(["from", "to"]).aggregate([("value", "mean")])
            longest = means.sort_by([("value_mean", "descending")]).slice(0, 1).to_pylist()
            if not longest:
                raise UsageError("no switch port has a queue in the time series")
            link = longest[0]["from"], longest[0]["to"]
        is_its = pc.and_(pc.equal(rows["from"], link[0]), pc.equal(rows["to"], link[1]))
        known, rows = rows, rows.filter(is_its)
        if len(rows) == 0:
            ends = zip(known["from"].to_pylist(), known["to"].to_pylist(), strict=True)
            ports = ", ".join(repr(port) for port in sorted(set(ends)))
            raise UsageError(f"link: found {link!r}, expected a port of a switch: {ports}")
        kilobytes = rows["value"].to_numpy() / 1e3
        axes.plot(rows["time_us"].to_numpy() / 1e3, kilobytes, label=title, **look.line())
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("queue (KB)" if link is None else f"queue {link[0]} → {link[1]} (KB)")
    axes.set_ylim(bottom=0)
    _legend(axes)
    return axes


@_styled
def metric(
    of: Sweep | Aggregate,
    name: str,
    *,
    label: str | None = None,
    x: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a metric with its 95 % confidence over seeds: of a sweep by a key, or of an aggregate.

    A sweep has one line with a band for each combination of the other keys. `x` is the key of the x
    axis (default: the first numeric key). An aggregate has one point with a bar per protocol.
    `label` selects the flows, if several labels have the metric.

    Bands and bars are limited to possible values: slowdowns to at least 1, others to at least 0. A
    hollow marker is a lower bound, because too many messages did not finish, or the maximum of
    fewer than 100 values (1,000 for the 99.9th percentile). Axes are logarithmic if that spreads
    the values better, as in reports.
    """
    if isinstance(of, Aggregate):
        axes = _protocols_across(_axes(axes), of, name, label)
    elif isinstance(of, Sweep):
        axes = _key_across(axes, of, name, label, x)
    else:
        raise UsageError(f"of: found {type(of).__name__}, expected a sweep or an aggregate")
    axes.set_ylabel(_axis_label(name))
    return axes


def _protocols_across(axes: Axes, of: Aggregate, name: str, label: str | None) -> Axes:
    """Draw one point with a bar per protocol."""
    all_metrics = [run.metrics for run in of.runs]
    protocols = [run.protocol for run in of.runs]
    found: list[Metric] = []
    for at, (run, look) in enumerate(zip(of.runs, _apart(looks(protocols)), strict=True)):
        for one in _one_label(all_metrics, run.metrics, name, label):
            found.append(one)
            low, high = _interval([one])
            axes.errorbar(
                [at],
                [one.mean],
                yerr=[one.mean - low, high - one.mean],
                color=look.color,
                marker=look.marker,
                markersize=5,
                markerfacecolor="white" if _is_hollow(one) else look.color,
                capsize=3,
                label=run.protocol,
            )
    if not found:
        raise UsageError(f"label: found {label!r}, which has no {name}")
    axes.set_xticks(range(len(protocols)), protocols)
    if sum(map(len, protocols)) > 30:
        axes.tick_params(axis="x", labelrotation=35)
    axes.set_xlim(-0.5, len(protocols) - 0.5)
    axes.set_xlabel("protocol")
    _log_where_decades(axes, [one.mean for one in found])
    return axes


def _log_where_decades(axes: Axes, values: Sequence[float]) -> None:
    """Use a logarithmic y axis for positive values that span more than a decade and a half."""
    if min(values) > 0 and max(values) > 30 * min(values):
        axes.set_yscale("log")
        _plainly(axes.yaxis)


def _suits_log(numbers: Sequence[float]) -> bool:
    """Return whether numbers span about a decade and are more even on a log axis."""
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < 8 * numbers[0]:
        return False

    def widest(of: Any) -> float:
        return float(np.max(np.diff(of)) / (of[-1] - of[0]))

    return widest(np.log(numbers)) < widest(np.array(numbers))


def _key_across(
    axes: Axes | None, sweep: Sweep, name: str, label: str | None, x: str | None
) -> Axes:
    """Draw one line over a key for each combination of the other keys."""
    numeric: dict[str, tuple[list[float], str]] = {}
    for i, key in enumerate(sweep.keys):
        found = [_native.magnitude(str(point.values[i])) for point in sweep.points]
        numbers = [one for one in found if one is not None]
        if len(numbers) == len(found) and len({unit for _, unit in numbers}) == 1:
            numeric[key] = [number for number, _ in numbers], numbers[0][1]
    across = x if x is not None else next(iter(numeric), None)
    if across is None or across not in numeric:
        known = ", ".join(numeric) or f"there is none among {', '.join(sweep.keys)}"
        raise UsageError(f"x: found {across!r}, expected a key of numbers: {known}")
    axes = _axes(axes)
    at, (places, unit) = sweep.keys.index(across), numeric[across]
    all_metrics = [point.metrics for point in sweep.points]
    lines: dict[tuple[str, ...], list[tuple[float, Metric]]] = {}
    for point, across_at in zip(sweep.points, places, strict=True):
        others = [str(value) for i, value in enumerate(point.values) if i != at]
        for one in _one_label(all_metrics, point.metrics, name, label):
            protocol = [] if one.protocol in others else [one.protocol]
            lines.setdefault((*others, *protocol), []).append((across_at, one))
    if not lines:
        raise UsageError(f"label: found {label!r}, which has no {name}")
    # Values that all lines share are omitted from the legend.
    shared = [len(set(column)) == 1 for column in zip(*lines, strict=True)]
    drawn = looks([points[0][1].protocol for points in lines.values()])
    for (names, points), look in zip(lines.items(), drawn, strict=True):
        points.sort(key=lambda point: point[0])
        own = [one for one, is_shared in zip(names, shared, strict=True) if not is_shared]
        _mean_line(axes, points, ", ".join(own or names[-1:]), look)
    if _suits_log(sorted(set(places))):
        axes.set_xscale("log")
        _plainly(axes.xaxis)
    _log_where_decades(axes, [one.mean for points in lines.values() for _, one in points])
    words = _native.key_words(across)
    axes.set_xlabel(f"{words} ({_UNITS.get(unit, unit)})" if unit else words)
    # The legend's title names the keys; names of protocols need none.
    keys = [
        _native.key_words(key)
        for i, key in enumerate(sweep.keys)
        if i != at and key != "transport.protocol"
    ]
    _legend(axes, ", ".join(keys) if len(lines) > 1 else None)
    return axes


def _one_label(
    everywhere: Sequence[Sequence[Metric]],
    metrics: Sequence[Metric],
    name: str,
    label: str | None,
) -> list[Metric]:
    if name.startswith("size_"):
        raise UsageError(
            f"name: {name} has a value for each range of sizes: `by_size` draws those of an "
            "aggregate, and the table of a sweep contains them"
        )
    named = [one for one in metrics if one.metric == name and one.min_bytes is None]
    if not named and not any(one.metric == name for of in everywhere for one in of):
        known = sorted({one.metric for of in everywhere for one in of})
        raise UsageError(f"name: found {name!r}, expected one of {', '.join(known)}")
    if label is not None:
        return [one for one in named if one.label == label]
    labels = sorted({one.label for one in named})
    if len(labels) > 1:
        raise UsageError(f"label: found none, expected one of {', '.join(map(repr, labels))}")
    return named


_UNITS = {"us": "µs", "gbps": "Gbit/s", "bytes": "bytes", "Gbps": "Gbit/s", "B": "bytes"}
_PERCENTILES = {"p50": "median", "p99": "99th percentile", "p999": "99.9th percentile"}


def _axis_label(name: str) -> str:
    """Return the axis label of a metric: `completion time, 99th percentile (µs)`."""
    end = name.rsplit("_", 1)[-1]
    return _native.words(name) + (f" ({_UNITS[end]})" if end in _UNITS else "")
