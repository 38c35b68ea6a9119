"""Results as frozen dataclasses.

Fields are the keys of `summary.json`, `comparison.json`, `aggregate.json` and `sweep.json`, with
units in their names; `docs/results.md` explains each. Undefined values are `None`. `from` is a
keyword of Python, so the ends of a link are `from_` and `to`.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidegate import _native
from tidegate._native import Table

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    """Percentiles of the slowdown, and the share of messages up to which they are known."""

    p50: float | None
    p99: float | None
    p999: float | None
    reach: float | None = None


@dataclass(frozen=True, kw_only=True)
class Fct:
    """Completion times of messages, in microseconds, and their slowdown."""

    count: int
    unfinished: int
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    slowdown: Percentiles
    reach: float | None = None
    by_size: tuple[FctBySize, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FctBySize(Fct):
    """The same for messages of at least `min_bytes` and less than `below_bytes`."""

    min_bytes: int
    below_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A flow or message."""

    id: int
    label: str
    src: str
    dst: str
    protocol: str
    start_us: float
    size_bytes: int | None
    delivered_bytes: int
    goodput_gbps: float | None
    fair_share_gbps: float | None
    fct_us: float | None
    acked_us: float | None
    slowdown: float | None
    retransmitted_bytes: int
    measured: bool
    ideal_us: float | None = None
    exchange_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """Goodput over several flows, in Gbit/s; `jain` is Jain's index."""

    mean: float | None
    min: float | None
    max: float | None
    total: float | None
    jain: float | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """Flows of one label and protocol."""

    label: str
    protocol: str
    flows: int
    delivered_bytes: int
    retransmitted_bytes: int
    offered_gbps: float | None
    asked_gbps: float | None
    goodput_gbps: Goodput
    fair_share_gbps: float | None
    hop_delay_us: float | None
    queue_target_us: float | None
    fct: Fct


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean, percentile and maximum, in the unit of the field that holds it."""

    mean: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, kw_only=True)
class Link:
    """One direction of a link."""

    from_: str
    to: str
    rate_gbps: float
    utilization: float | None
    queue_bytes: Spread
    queue_delay_us: Spread
    packets: int
    drops: int
    ecn_marks: int
    pfc_pauses: int
    paused_us: float | None
    from_host: bool
    credit_drops: int | None = None
    trims: int | None = None
    returned: int | None = None


@dataclass(frozen=True, kw_only=True)
class SwitchSettings:
    """Settings of a switch."""

    priorities: int | None
    buffer_size_bytes: int | None
    mark_from_bytes: float | None
    mark_all_bytes: float | None
    mark_max_probability: float | None
    mark_at: str | None
    mark_per_gbps: float | None = None
    pfc_alpha: float | None = None
    credit_share: float | None = None
    telemetry_quantum_us: float | None = None
    telemetry_period_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A switch."""

    name: str
    hosts: int
    buffer_bytes: Spread
    samples: int
    drops: int
    settings: SwitchSettings | None


@dataclass(frozen=True, kw_only=True)
class Circuits:
    """Circuits between racks."""

    day_us: float
    night_us: float
    week_us: float
    prebuffer_us: float
    voq_bytes: int | None
    enlarged_voq_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Counters of faults."""

    lost: int
    corrupted: int
    duplicated: int
    reordered: int
    outages: int


@dataclass(frozen=True, kw_only=True)
class PauseStorm:
    """A host that paused its switch for a long time."""

    host: str
    since_us: float | None


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """Pauses of links; `longest` is the longest-paused link (from, to)."""

    pauses: int
    links: int
    paused_links: int
    share_mean: float | None
    share_max: float | None
    longest: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of iterations, in microseconds."""

    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A collective or a job."""

    label: str
    op: str
    protocol: str
    ranks: int
    size_bytes: int
    iterations: int
    finished: int
    measured: int
    completion_us: float | None
    iteration_us: Times
    algbw_gbps: float | None
    busbw_gbps: float | None
    iterations_us: tuple[float | None, ...] = ()
    communication: float | None = None
    iterations_communication: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The execution of a run. All fields but `digest` and `packet_hops` vary between runs."""

    digest: str
    packet_hops: int
    wall_seconds: float
    cpu_seconds: float
    events: int
    packet_hops_per_second: float | None
    threads: int
    peak_rss_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The summary of a run: `summary.json`."""

    schema: int
    name: str
    seed: int
    protocols: tuple[str, ...]
    connections: str
    routing: str
    sim_seconds: float
    drain_seconds: float
    drain_max_seconds: float
    warmup_seconds: float
    truncated: bool
    warnings: tuple[str, ...]
    engine: Engine
    groups: tuple[Group, ...]
    fct: dict[str, Fct]
    links: tuple[Link, ...]
    links_omitted: int
    switches: tuple[Switch, ...]
    fixed_rates_gbps: dict[str, tuple[float, ...]] = field(default_factory=dict)
    flows: tuple[Flow, ...] | None = None
    flows_in: str | None = None
    exchanges: dict[str, Fct] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    circuits: Circuits | None = None
    faults: Faults | None = None
    pause_storms: tuple[PauseStorm, ...] = ()
    pauses: Pauses | None = None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Run:
    """A run: its summary, and its tables for Arrow libraries.

    `flows` has a row per flow and message; `timeseries` has a row per sample, if the scenario
    requests samples. `folder` is the folder of the results, if they were written.
    """

    protocol: str
    summary: Summary
    flows: Table
    timeseries: Table | None = None
    folder: Path | None = None

    def __repr__(self) -> str:
        """Return a description in one line."""
        name, seed = self.summary.name, self.summary.seed
        return f"<Run: {name}, {self.protocol}, seed {seed}, {len(self.flows)} flows>"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Comparison:
    """Runs of one scenario under several protocols; `comparison["NAME"]` returns one."""

    schema: int
    name: str
    seed: int
    warnings: tuple[str, ...]
    runs: tuple[Run, ...]
    folder: Path | None = None

    def __getitem__(self, protocol: str) -> Run:
        """Return the run under a protocol."""
        return next(run for run in self.runs if run.protocol == protocol)

    def __repr__(self) -> str:
        """Return a description in one line."""
        names = ", ".join(run.protocol for run in self.runs)
        return f"<Comparison: {self.name}, seed {self.seed}: {names}>"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Difference of a metric from the baseline by seed: mean and half of the 95 % interval.

    `p` is the p-value of the paired t-test, `p_holm` that with Holm's correction over the table.
    """

    n: int
    mean: float
    half_width: float | None
    p: float | None
    p_holm: float | None
    is_significant: bool
    values: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric over several seeds: mean and half of the 95 % interval.

    `difference` is the difference from the baseline; the baseline itself has none.
    """

    label: str
    protocol: str
    metric: str
    unit: str
    n: int
    mean: float
    half_width: float | None
    min: float
    max: float
    is_lower_bound: bool
    is_best: bool
    values: tuple[float | None, ...]
    difference: Difference | None = None
    min_bytes: int | None = None
    below_bytes: int | None = None
    is_maximum: bool = False


@dataclass(frozen=True, kw_only=True)
class SeededRun:
    """Results of a scenario under all seeds."""

    protocol: str
    digests: tuple[str, ...]
    metrics: tuple[Metric, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregate:
    """Runs of one scenario under several seeds: `aggregate.json`. It prints as a table."""

    schema: int
    name: str
    seeds: tuple[int, ...]
    warnings: tuple[str, ...]
    runs: tuple[SeededRun, ...]
    baseline: str | None = None
    folder: Path | None = None

    def __repr__(self) -> str:
        """Return a table of means with intervals, then one of differences from the baseline."""
        names = ", ".join(run.protocol for run in self.runs)
        seeds = "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        parts = [f"<Aggregate: {self.name}, {seeds}: {names}>", *_table(self.runs, _shown)]
        if self.baseline is not None:
            parts += [
                "",
                f"Difference from {self.baseline} by seed, n = {len(self.seeds)}",
                *_table(self.runs, _shown_difference),
                "",
                "*: significant (5 %) by paired t-tests, Holm-corrected within the table",
            ]
        return "\n".join(parts)


_COLUMNS = (
    ("goodput_total_gbps", "goodput Gbps"),
    ("goodput_jain", "Jain"),
    ("unfinished", "unfinished a seed"),
    ("fct_p50_us", "FCT p50 us"),
    ("fct_p99_us", "p99 us"),
    ("slowdown_p50", "slowdown p50"),
    ("slowdown_p99", "p99"),
    ("exchange_p99_us", "request p99 us"),
    ("job_completion_us", "collective us"),
)
"""Metrics of the table that an aggregate prints, with titles."""


def _table(runs: tuple[SeededRun, ...], shown: Callable[[Metric], str]) -> list[str]:
    """Format one row per label and protocol that has any of the metrics."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        for one in run.metrics:
            if one.min_bytes is None and one.metric in dict(_COLUMNS) and shown(one):
                rows.setdefault((one.label, run.protocol), {})[one.metric] = shown(one)
    used = [(name, title) for name, title in _COLUMNS if any(name in row for row in rows.values())]
    lines = [["label", "protocol", *(title for _, title in used)]]
    labels = [label for label, _ in rows]
    for (label, protocol), row in sorted(rows.items(), key=lambda of: labels.index(of[0][0])):
        lines.append([label or "-", protocol, *(row.get(name, "-") for name, _ in used)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(_aligned, line, widths, range(len(line)))).rstrip() for line in lines]


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)


def _digits(value: float) -> str:
    """Format a number with three significant digits."""
    size = abs(value)
    decimals = 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2
    return f"{value:.{3 if 0 < size < 0.9995 else decimals}f}"


def _shown(one: Metric) -> str:
    """Format a mean like `* 19.8 ± 0.12`; a star marks the best."""
    sign = "≥ " if one.is_lower_bound else "max " if one.is_maximum else ""
    value = _digits(one.mean) + _spread(one)
    return f"{'* ' if one.is_best else ''}{sign}{value}"


def _spread(one: Metric) -> str:
    """Format half of an interval, or its ends if it is cut at the limits of the quantity."""
    half = one.half_width or 0.0
    least, most = _native.limits(one.metric)
    if not _half(one.mean, half) or least <= one.mean - half <= one.mean + half <= most:
        return _half(one.mean, half)
    low = min(max(one.mean - half, least), one.mean)
    high = max(min(one.mean + half, most), one.mean)
    return f" [{_digits(low)}, {_digits(high)}]"


def _half(mean: float, half: float | None) -> str:
    """Format half of an interval, if it is visible in the digits of the mean."""
    return "" if half is None or half <= 5e-4 * abs(mean) else f" ± {_digits(half)}"


def _shown_difference(one: Metric) -> str:
    if one.difference is None:
        return ""
    away = one.difference
    mean = _digits(away.mean)
    # A value whose shown digits are all zero has no sign.
    is_zero = not mean.strip("-0.")
    mean = mean.lstrip("-") if is_zero else f"+{mean}" if away.mean > 0 else mean
    half = _half(away.mean, away.half_width)
    return f"{'* ' if away.is_significant else ''}{mean}{half}"


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """A point of a sweep: the value of each key, and the metrics over the seeds."""

    values: tuple[float | str, ...]
    metrics: tuple[Metric, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A failed run, with the reason."""

    values: tuple[float | str, ...]
    seed: int
    why: str


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sweep:
    """Results of a sweep: `sweep.json`, and `table` with one row per run and metric.

    `kept` is the number of cached runs.
    """

    schema: int
    name: str
    keys: tuple[str, ...]
    seeds: tuple[int, ...]
    points: tuple[SweepPoint, ...]
    failed: tuple[FailedRun, ...]
    table: Table
    baseline: str | None = None
    warnings: tuple[str, ...] = ()
    kept: int = 0
    folder: Path | None = None

    def __repr__(self) -> str:
        """Return a description in one line."""
        points, seeds, keys = len(self.points), len(self.seeds), ", ".join(self.keys)
        return f"<Sweep: {self.name} by {keys}: {points} points, {seeds} seeds>"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Estimated cost of a sweep; the numbers of runs are exact.

    `bound` is "about" or "at-most".
    """

    runs: int
    kept: int
    packet_hops: float
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int | None
    threads: int
    probes: int
    bound: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper, with its verdict.

    `seeds` are the number of seeds with different runs, and the least and greatest value of them.
    """

    paper: str
    figure: str
    claim: str
    sentence: str
    is_part: bool
    text: str
    paper_value: float | None
    derived: bool
    measured: float | None
    unit: str
    verdict: str
    as_chosen: str
    why: str
    seeds: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a paper that can be reproduced."""

    paper: str
    figure: str
    title: str
    runs: int
    claims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a protocol."""

    name: str
    kind: str
    unit: str | None
    default: float | str | bool
    min: float | str | None
    max: float | str | None
    choices: tuple[str, ...]
    needs: tuple[str, ...]
    """Conditions, such as `plb = "rounds"`. If one does not hold, it has no effect."""
    meaning: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named set of parameters; others have their defaults."""

    name: str
    source: str
    parameters: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TelemetryBytes:
    """Telemetry bytes of a packet: fixed, and per switch on the path."""

    fixed: int
    per_hop: int


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol: description, fabric requirements, look in plots, and parameters."""

    name: str
    title: str
    family: str
    summary: str
    revision: int
    citation: str
    color: str
    marker: str
    dash: str
    needs: tuple[str, ...]
    marking: str | None
    telemetry_bytes: TelemetryBytes
    echo_bytes: TelemetryBytes
    parameters: tuple[Parameter, ...] = field(repr=False)
    presets: tuple[Preset, ...] = field(repr=False)
    outside_domain: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ineffective:
    """A parameter of the scenario's protocol that has no effect in it.

    `reason` completes "the parameter has no effect". If another value of a parameter gives it an
    effect, `depends_on` names that parameter.
    """

    parameter: str
    depends_on: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A valid scenario.

    `resolved` is the scenario with all defaults; `hash` identifies its content.
    """

    name: str
    seed: int
    hash: str
    warnings: tuple[str, ...]
    ineffective: tuple[Ineffective, ...] = field(repr=False)
    resolved: dict[str, Any] = field(repr=False)


def made(of: type[T], data: Any, **more: Any) -> T:
    """Create a dataclass from JSON data and further fields.

    Unknown keys, which newer versions may write, are ignored.
    """
    make: Callable[[Any], T] = _maker(typing.cast(Any, of))
    return make({**data, **more})


@functools.cache
def _maker(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts JSON data to a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        makers = [_maker(one) for one in inner if one is not type(None)]
        of = makers[0] if len(makers) == 1 else _same
        return of if of is _same else lambda data: None if data is None else of(data)
    if origin is tuple:
        of = _maker(inner[0])
        return tuple if of is _same else lambda data: tuple([of(one) for one in data])
    if origin is dict and _maker(inner[1]) is not _same:
        of = _maker(inner[1])
        return lambda data: {key: of(one) for key, one in data.items()}
    if not is_dataclass(hint):
        return _same
    kind: Any = hint

    def make(data: Any) -> Any:
        return kind(
            **{
                name: data[key] if of is _same else of(data[key])
                for name, key, of, needed in _parts(kind)
                if needed or key in data
            }
        )

    return make


@functools.cache
def _parts(hint: Any) -> list[tuple[str, str, Callable[[Any], Any], bool]]:
    """Return the fields of a dataclass: name, name in JSON, converter, and whether required.

    Called lazily, since a dataclass may contain others of its own type.
    """
    hints = typing.get_type_hints(hint)
    return [
        (one.name, one.name.rstrip("_"), _maker(hints[one.name]), _is_needed(one))
        for one in fields(hint)
    ]


def _is_needed(one: Any) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _same(data: Any) -> Any:
    return data
