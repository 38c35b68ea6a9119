"""The answer of a search: finalists on seeds that the search did not use, and what matters."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate._tune.goals import Constraint, Objective
from tidegate._tune.search import (
    LOWER_BOUND,
    Bench,
    Candidate,
    Search,
    bounded_means,
    by_seed,
    each_seed,
    feasible,
    is_known,
    is_open,
    planned,
)
from tidegate._tune.space import Axis
from tidegate.errors import ScenarioError
from tidegate.results import Metric

FINALISTS = 3
"""Candidates of each protocol, beside its defaults, that are measured on other seeds."""

CURVES = 3
"""Parameters of each protocol, the most important ones, with a curve."""

FRONT = 10
"""Candidates of the Pareto front that are measured on the reported seeds."""

SELECTION_FROM = 1_000_001
"""First seed that chooses among finalists."""

REPORT_FROM = 2_000_001
"""First seed of the reported values: neither the search nor the choice has used it."""

_EACH = "{each}"
"""Place in a note for a word that it has only if it is about several protocols."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and half of its 95 % interval by Student's t.

    It is a lower bound if messages of the runs are unfinished. With `missing` seeds, in which no
    message finished, it is worse than any complete value.
    """

    mean: float
    half_width: float | None
    is_lower_bound: bool = False
    n: int = 0
    missing: int = 0

    @staticmethod
    def of(given: Sequence[float | None]) -> Interval:
        """Return the interval of values, of which some may be missing; NaN without values."""
        values = [one for one in given if one is not None]
        n, missing = len(values), len(given) - len(values)
        if n < 2:
            return Interval(values[0] if values else math.nan, None, n=n, missing=missing)
        from scipy.stats import t

        error = statistics.stdev(values) / math.sqrt(n)
        half_width = float(t.ppf(0.975, n - 1)) * error
        return Interval(statistics.fmean(values), half_width, n=n, missing=missing)

    @property
    def is_complete(self) -> bool:
        """Whether it can be compared: all seeds have a value, which is no lower bound."""
        return not (math.isnan(self.mean) or self.missing or self.is_lower_bound)

    @property
    def excludes_zero(self) -> bool:
        """Whether zero is outside of the interval. Equal values of all seeds test nothing."""
        if self.half_width is None or not self.is_complete:
            return False
        return abs(self.mean) > self.half_width > 0

    def __str__(self) -> str:
        """Return `mean ± half width`, and the number of seeds if some have no value."""
        if math.isnan(self.mean):
            return "-"
        half = "" if self.half_width is None else f" ± {self.half_width:.3g}"
        n = f" (n = {self.n} of {self.n + self.missing})" if self.missing else ""
        return f"{'≥ ' if self.is_lower_bound else ''}{self.mean:.4g}{half}{n}"


@dataclass(frozen=True)
class Tuned:
    """A protocol with its default and its tuned parameters, on seeds that chose no candidate.

    `gain` is the improvement of the first objective in the search, `kept` the difference on the
    reported seeds over it. Values are of the first objective. `values` and `tuned` are those of the
    chosen candidate, also if it is no improvement: `recommended` is the answer, and `answer` its
    value.
    """

    protocol: str
    values: dict[str, int | float | str]
    defaults: dict[str, int | float | str]
    default: Interval
    tuned: Interval
    difference: Interval
    gain: float
    kept: float | None
    is_improved: bool
    importance: dict[str, float]
    curves: dict[str, list[tuple[float, float]]]
    by_seed: tuple[tuple[float | None, ...], tuple[float | None, ...]] = ((), ())
    """Values by seed, with the defaults and with the tuned parameters."""
    bounded: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Values of the constraints, with the defaults and with the tuned parameters.

    NaN without a value, and infinite if only a lower bound of a value with `<=` is known.
    """
    meets_constraints: bool = True
    is_known: tuple[bool, bool] = (True, True)
    """Whether all values are known, with the defaults and with the tuned parameters.

    Others are not the best value of a constraint.
    """

    def has_unknown(self, constraint: int) -> bool:
        """Whether a constraint is unknown for the defaults or the tuned parameters."""
        return any(math.inf in values[constraint : constraint + 1] for values in self.bounded)

    @property
    def recommended(self) -> dict[str, int | float | str]:
        """The chosen parameters if they are an improvement, otherwise the defaults."""
        return self.values if self.is_improved else self.defaults

    @property
    def answer(self) -> Interval:
        """The value of the recommended parameters."""
        return self.tuned if self.is_improved else self.default


@dataclass(frozen=True)
class FrontPoint:
    """A candidate of the search: no other is nowhere worse and better in one objective.

    Its scenario is the file of its name: `front-1.toml`. `searched` are its means on the seeds of
    the search, `measured` those on the reported seeds; empty if it was only searched. `holds` is
    whether it has values, meets the constraints and no other measured point beats it on the
    reported seeds, too; `None` if it was only searched.
    """

    name: str
    protocol: str
    number: int
    values: dict[str, int | float | str]
    searched: tuple[float, ...]
    measured: tuple[Interval, ...] = ()
    holds: bool | None = None


@dataclass(frozen=True, repr=False)
class Study:
    """The result of `tidegate.tune`. It prints as a table.

    `best` is the first of `protocols`, which are in the order of their answers. With several
    objectives, `front` has the points of the Pareto front, in the order of the first objective.
    `warnings` are those of the scenarios with the recommended parameters.
    """

    name: str
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    seeds: tuple[int, ...]
    report_seeds: tuple[int, ...]
    protocols: tuple[Tuned, ...]
    differences: dict[str, Interval]
    front: tuple[FrontPoint, ...]
    candidates: tuple[Candidate, ...] = field(repr=False)
    axes: dict[str, tuple[Axis, ...]] = field(repr=False)
    over: dict[str, list[str]] = field(repr=False)
    warnings: tuple[str, ...] = field(repr=False)
    folder: Path | None = None
    has_selection: bool = False
    """Whether `params` selected the parameters."""
    units: tuple[str, ...] = ()
    """Units of the objectives; empty for a ratio or a number."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """The objectives with their units."""
        units = self.units or [""] * len(self.objectives)
        pairs = zip(self.objectives, units, strict=True)
        return tuple(f"{one} ({unit})" if unit else one for one, unit in pairs)

    @property
    def best(self) -> Tuned:
        """The protocol with the best answer."""
        return self.protocols[0]

    def why_default(self, one: Tuned) -> str:
        """Explain why the defaults of a protocol are recommended."""
        if not self.axes[one.protocol]:
            none = "none of its parameters is selected"
            return none if self.has_selection else "it has no parameters to search"
        own = [it for it in self.candidates if it.protocol == one.protocol]
        if own and all(it.why for it in own if it.number > 0):
            is_open = any(it.state == LOWER_BOUND for it in own if it.number > 0)
            remedy = ": increase duration or drain, so that messages finish" if is_open else ""
            return f"no candidate could be compared with them{remedy}"
        if own and not any(it.number > 0 for it in feasible(own)):
            return "no candidate met the constraints in the search"
        return "no candidate is shown to be better on these seeds"

    def __repr__(self) -> str:
        """Return the table of protocols and the parameters of the best."""
        rows = [("protocol", "default", "tuned", "difference", "gain kept", "worse than the best")]
        for one in self.protocols:
            star = "*" if one.difference.excludes_zero else ""
            kept = "-" if one.kept is None else f"{round(100 * one.kept)} %"
            behind = self.differences.get(one.protocol)
            against = "" if behind is None else f"{behind}{'*' if behind.excludes_zero else ''}"
            name = one.protocol if one.meets_constraints else f"{one.protocol} (violates)"
            difference = f"{one.difference}{star}"
            rows.append((name, str(one.default), str(one.tuned), difference, kept, against))
        lines = _aligned(rows)
        n = len(self.report_seeds)
        notes = [
            f"{self.quantities[0]}: means over n = {n} seeds that the search did not use.",
            "*: the 95 % interval of the paired difference excludes zero.",
        ]
        shown = [it for one in self.protocols for it in (one.default, one.tuned)]
        shown += [it for one in self.front for it in one.measured]
        if any(it.is_lower_bound for it in shown):
            notes.append(
                "≥: a lower bound, as messages are unfinished; differences to it are not shown."
            )
        if self.constraints:
            notes.append(f"Subject to {', '.join(self.constraints)}.")
        for i, bound in enumerate(self.constraints):
            unknown = [it.protocol for it in self.protocols if it.has_unknown(i)]
            if unknown:
                notes.append(
                    f"{bound}: unknown for {', '.join(unknown)}, as messages are unfinished; "
                    "it counts as violated."
                )
        fixed = [name for name, axes in self.axes.items() if not axes]
        if fixed:
            why = "no parameters selected" if self.has_selection else "no parameters to search"
            notes.append(f"Only with defaults, {why}: {', '.join(fixed)}.")
        notes.extend(f"Mean over {key} = {', '.join(each)}." for key, each in self.over.items())
        pairs = ((one.protocol, text) for one in self.protocols for text in self._remarks(one))
        notes.extend(_shared(pairs))
        best = self.best
        if not best.meets_constraints:
            notes.append("No protocol meets the constraints on these seeds.")
        elif not best.answer.is_complete:
            which = " that meets the constraints" if self.constraints else ""
            why = "increase duration or drain, so that messages finish"
            if not best.answer.is_lower_bound:
                why = "no message finished (increase duration or drain), or runs failed"
            notes.append(f"No protocol{which} has a complete value on these seeds: {why}.")
        elif best.is_improved:
            notes.append(f"Best: {best.protocol} with {listed(best.values)}.")
        else:
            notes.append(f"Best: {best.protocol} with its defaults: {self.why_default(best)}.")
        if best.meets_constraints and best.answer.is_complete:
            shares = list(best.importance.items())[:CURVES]
            notes.extend(f"  {100 * of:3.0f} % of the variation: {name}" for name, of in shares)
        if self.front:
            notes.extend(["", *self._front_lines()])
        return "\n".join([*lines, "", *notes])

    def _remarks(self, one: Tuned) -> Iterator[str]:
        """Yield what the candidates of a protocol show."""
        own = [it for it in self.candidates if it.protocol == one.protocol]
        reasons = [it.why for it in own if it.why]
        bounds = sum(it.state == LOWER_BOUND for it in own)
        failed = len(reasons) - bounds
        if reasons and len(own) == 1:
            what = "have only a lower bound" if bounds else "failed"
            yield f"the defaults {what}: {reasons[0]}."
        elif reasons:
            have = "has" if bounds == 1 else "have"
            yield (
                f"of {len(own)} candidates{_EACH}, {bounds} {have} only a lower bound and "
                f"{failed} failed; the first reason: {reasons[0]}."
            )
        complete = [it.objectives[0] for it in own if it.state == "complete"]
        if len(complete) > 1 and len(set(complete)) == 1:
            yield "no parameter changed the objective."

    def _front_lines(self) -> list[str]:
        """Return the table of the Pareto front."""
        rows = [("front", "protocol", *self.quantities, "seeds", "parameters")]
        for one in self.front:
            if one.measured:
                values = [str(interval) for interval in one.measured]
                seeds = "unseen" if one.holds else "unseen, does not hold"
            else:
                values = [f"{mean:.4g}" for mean in one.searched]
                seeds = "search seeds"
            name = one.name if self.folder is None else f"{one.name}.toml"
            parameters = listed(one.values) if one.number else "defaults"
            rows.append((name, one.protocol, *values, seeds, parameters))
        return _aligned(rows)


def _shared(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Return each text once, with the protocols that it is about."""
    names: dict[str, list[str]] = {}
    for name, text in notes:
        names.setdefault(text, []).append(name)
    return [
        f"{', '.join(own)}: {text.replace(_EACH, ' each' if len(own) > 1 else '')}"
        for text, own in names.items()
    ]


def listed(values: Mapping[str, int | float | str]) -> str:
    """Return parameters as in a scenario."""
    shown = (
        (name, str(one).lower() if isinstance(one, bool) else one) for name, one in values.items()
    )
    return ", ".join(f"{name} = {one}" for name, one in shown)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _beats(one: Sequence[float], other: Sequence[float], goals: Sequence[Objective]) -> bool:
    """Whether values are nowhere worse than others, and better in one objective."""
    pairs = list(zip(goals, one, other, strict=True))
    no_worse = all(not goal.is_better(theirs, ours) for goal, ours, theirs in pairs)
    return no_worse and any(goal.is_better(ours, theirs) for goal, ours, theirs in pairs)


def _pareto(candidates: Sequence[Candidate], goals: Sequence[Objective]) -> list[Candidate]:
    """Return the candidates that no other beats, in the order of the first objective.

    Of candidates with equal values, the front has the defaults, or the first.
    """
    points: dict[tuple[float, ...], Candidate] = {}
    for one in sorted(candidates, key=lambda it: it.number > 0):
        points.setdefault(tuple(one.objectives), one)
    front = [
        one
        for one in points.values()
        if not any(_beats(other.objectives, one.objectives, goals) for other in points.values())
    ]
    return sorted(front, key=lambda one: one.objectives[0], reverse=goals[0].maximise)


def _spread(front: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return at most `count` points of a front: both ends, and points at equal steps between."""
    if len(front) <= count:
        return list(front)
    return [front[round(i * (len(front) - 1) / (count - 1))] for i in range(count)]


@dataclass(frozen=True)
class _Reported:
    """A candidate on the reported seeds: its objectives, and the values of the constraints."""

    objectives: tuple[Interval, ...]
    bounded: tuple[float, ...]
    is_known: bool = True

    @property
    def is_missing(self) -> bool:
        """Whether a seed has no value, because its run failed or finished no message."""
        return any(one.missing or math.isnan(one.mean) for one in self.objectives)

    def compared(self, goals: Sequence[Objective]) -> list[float]:
        """Return the means; those that are not complete are worse than any complete value."""
        pairs = zip(goals, self.objectives, strict=True)
        return [
            one.mean if one.is_complete else -math.inf if goal.maximise else math.inf
            for goal, one in pairs
        ]


def _reported(
    bench: Bench,
    front: Sequence[Candidate],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: Sequence[int],
) -> dict[tuple[str, int], _Reported]:
    """Measure points of the Pareto front on the reported seeds, by protocol and number."""
    found = {}
    chosen = _spread(front, FRONT)
    for protocol in dict.fromkeys(one.protocol for one in chosen):
        own = [one for one in chosen if one.protocol == protocol]
        results = bench.measured(protocol, [one.values for one in own], seeds)
        for one, conditions in zip(own, results, strict=True):
            found[protocol, one.number] = _Reported(
                tuple(_interval(goal, conditions) for goal in goals[0]),
                bounded_means(goals[1], conditions),
                is_known(goals, conditions),
            )
    return found


def _front(
    front: Sequence[Candidate],
    reported: Mapping[tuple[str, int], _Reported],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    best: Sequence[float],
) -> list[FrontPoint]:
    """Return the points of the Pareto front, and whether they hold on the reported seeds.

    The search decides which candidates belong to the front. Otherwise the reported seeds would
    have chosen the points whose values they report.
    """
    objectives, constraints = goals
    means = {key: one.compared(objectives) for key, one in reported.items()}

    def point(at: int, one: Candidate) -> FrontPoint:
        key = (one.protocol, one.number)
        searched = tuple(one.objectives)
        plain = FrontPoint(f"front-{at}", one.protocol, one.number, one.values, searched)
        own = reported.get(key)
        if own is None:
            return plain
        holds = (
            not own.is_missing
            and _meets(constraints, own.bounded, best)
            and not any(_beats(other, means[key], objectives) for other in means.values())
        )
        return replace(plain, measured=own.objectives, holds=holds)

    return [point(at, one) for at, one in enumerate(front, 1)]


def _different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the first of the candidates with equal parameters."""
    found: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        found.setdefault((one.protocol, repr(one.values)), one)
    return list(found.values())


def _finalists(search: Search, goals: Sequence[Objective]) -> list[Candidate]:
    """Return the defaults, and the best other candidates that meet the constraints."""
    everything = search.candidates()
    default = next(one for one in everything if one.number == 0)
    others = [one for one in _different(feasible(everything)) if one.values != default.values]
    goal = goals[0]
    others.sort(key=lambda one: one.objectives[0], reverse=goal.maximise)
    return [default, *others[:FINALISTS]]


def _curves(
    bench: Bench,
    search: Search,
    tuned: Candidate,
    importance: Mapping[str, float],
    goal: Objective,
    seeds: Sequence[int],
) -> dict[str, list[tuple[float, float]]]:
    """Return the objective over each important parameter, with the others as tuned."""
    curves = {}
    for axis in search.axes:
        if axis.name not in list(importance)[:CURVES]:
            continue
        numbers, rows = [], []
        for number in axis.around(tuned.numbers[axis.name]):
            row = {**tuned.values, axis.name: axis.text(number)}
            with suppress(ScenarioError):  # Parameters may exclude values of others.
                bench.check(search.protocol, row)
                numbers.append(number)
                rows.append(row)
        results = bench.measured(search.protocol, rows, seeds)
        points = []
        for number, conditions in zip(numbers, results, strict=True):
            found = by_seed(goal.of, conditions)
            if found is not None and not is_open(goal, conditions):
                points.append((number, statistics.fmean(found)))
        curves[axis.name] = points
    return curves


@dataclass(frozen=True)
class _Finalist:
    """A candidate, with its mean values on the seeds that choose; `None` if a run failed."""

    candidate: Candidate
    objective: float | None
    bounded: tuple[float, ...]
    is_known: bool = True


def _measured(
    bench: Bench,
    search: Search,
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: Sequence[int],
) -> list[_Finalist]:
    """Measure the finalists of a search, the defaults first."""
    objectives, constraints = goals
    finalists = _finalists(search, objectives)
    if len(finalists) == 1 and not constraints:
        return [_Finalist(finalists[0], None, ())]
    results = bench.measured(search.protocol, [one.values for one in finalists], seeds)
    found = []
    for one, conditions in zip(finalists, results, strict=True):
        values = by_seed(objectives[0].of, conditions)
        is_missing = values is None or is_open(objectives[0], conditions)
        mean = None if is_missing else statistics.fmean(values or [])
        bounded = bounded_means(constraints, conditions)
        found.append(_Finalist(one, mean, bounded, is_known(goals, conditions)))
    return found


def _chosen(
    finalists: Sequence[_Finalist],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    best: Sequence[float],
) -> Candidate:
    """Return the best finalist that meets the constraints; the defaults if none does."""
    goal, constraints = goals[0][0], goals[1]
    allowed = [
        (one.objective, one.candidate)
        for one in finalists
        if one.objective is not None and _meets(constraints, one.bounded, best)
    ]
    if not allowed:
        return finalists[0].candidate
    first = max if goal.maximise else min
    return first(allowed, key=lambda pair: pair[0])[1]


def _tuned(
    bench: Bench,
    search: Search,
    pair: tuple[Candidate, Candidate],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: tuple[Sequence[int], Sequence[int]],
) -> Tuned:
    """Measure the defaults and the chosen candidate, and what matters around the latter."""
    objectives, constraints = goals
    searched, report = seeds
    goal = objectives[0]
    default, chosen = pair
    measured = [default] if chosen is default else [default, chosen]
    results = bench.measured(search.protocol, [one.values for one in measured], report)
    values = [each_seed(goal.of, conditions) for conditions in results]
    default_value, tuned_value = (_interval(goal, of) for of in (results[0], results[-1]))
    bounded = [bounded_means(constraints, conditions) for conditions in results]
    difference = Interval.of([])
    if not (default_value.is_lower_bound or tuned_value.is_lower_bound):
        difference = _difference(values[0], values[-1])
    sign = 1.0 if goal.maximise else -1.0
    gain = 0.0
    if chosen is not default and default.state == "complete":
        gain = sign * (chosen.objectives[0] - default.objectives[0])
    importance = search.importance()
    curves = {}
    if importance:
        curves = _curves(bench, search, chosen, importance, goal, searched)
    return Tuned(
        protocol=search.protocol,
        values=chosen.values,
        defaults=default.values,
        default=default_value,
        tuned=tuned_value,
        difference=difference,
        gain=gain,
        kept=sign * difference.mean / gain if gain > 0 and difference.n else None,
        is_improved=chosen is not default
        and difference.excludes_zero
        and sign * difference.mean > 0,
        importance=importance,
        curves=curves,
        by_seed=(tuple(values[0]), tuple(values[-1])),
        bounded=(bounded[0], bounded[-1]),
        is_known=(is_known(goals, results[0]), is_known(goals, results[-1])),
    )


def _interval(goal: Objective, conditions: Sequence[Sequence[Metric]]) -> Interval:
    """Return the value of an objective on some seeds."""
    found = Interval.of(each_seed(goal.of, conditions))
    return replace(found, is_lower_bound=is_open(goal, conditions))


def _difference(one: Sequence[float | None], other: Sequence[float | None]) -> Interval:
    """Return the difference by seed, over the seeds that have both values."""
    pairs = zip(one, other, strict=False)
    return Interval.of([None if a is None or b is None else b - a for a, b in pairs])


def _behind(one: Tuned, best: Tuned, goal: Objective) -> Interval:
    """Return by how much a protocol is worse than the best; NaN if either has a lower bound."""
    if one.answer.is_lower_bound or best.answer.is_lower_bound:
        return Interval.of([])
    pair = (best.by_seed[best.is_improved], one.by_seed[one.is_improved])
    return _difference(*(reversed(pair) if goal.maximise else pair))


def _best(
    constraints: Sequence[Constraint], compared: Iterable[tuple[Sequence[float], bool]]
) -> tuple[float, ...]:
    """Return the best value of each constraint's metric.

    The compared values are of the same seeds: values under other traffic are not comparable. With
    each of them is whether all values of the candidate are known. Others count only if there are
    none: a candidate that leaves messages unfinished may have more goodput for the others.
    """
    rows = list(compared)
    known = [values for values, is_known in rows if is_known] or [values for values, _ in rows]
    best = []
    for i, one in enumerate(constraints):
        measured = [values[i] for values in known if not math.isnan(values[i])]
        first = max if one.at_least else min
        best.append(first(measured, default=math.nan))
    return tuple(best)


def _meets(
    constraints: Sequence[Constraint], values: Sequence[float], best: Sequence[float]
) -> bool:
    triples = zip(constraints, values, best, strict=True)
    return all(one.excess(value, most) <= 0 for one, value, most in triples)


def _checked(
    found: Sequence[Tuned], constraints: Sequence[Constraint], best: Sequence[float]
) -> list[Tuned]:
    """Check the constraints on the reported seeds.

    Parameters that meet the constraints, with a value that is no lower bound, are better than
    others and than failed runs. If neither the defaults nor the chosen ones are such, the chosen
    ones have to be better, and may not differ in meeting the constraints.
    """

    def checked(tuned: Tuned) -> Tuned:
        meets = [_meets(constraints, values, best) for values in tuned.bounded]
        values = (tuned.default, tuned.tuned)
        default, own = (ok and of.is_complete for ok, of in zip(meets, values, strict=True))
        is_improved = own if own != default else tuned.is_improved and meets[0] == meets[1]
        return replace(tuned, meets_constraints=meets[is_improved], is_improved=is_improved)

    return [checked(one) for one in found]


def _ordered(found: Sequence[Tuned], goal: Objective) -> list[Tuned]:
    """Return protocols, the best first.

    Those that violate a constraint, without values in some seeds, or with a lower bound come last.
    """

    def order(one: Tuned) -> tuple[bool, bool, int, bool, float]:
        value = one.answer
        mean = -value.mean if goal.maximise else value.mean
        missing = value.missing
        return not one.meets_constraints, math.isnan(mean), missing, value.is_lower_bound, mean

    return sorted(found, key=order)


def _doubts(one: Tuned) -> Iterator[str]:
    """Yield what makes the answer of a protocol doubtful."""
    if one.answer.is_lower_bound:
        yield (
            "messages are unfinished on the reported seeds, also with the recommended parameters: "
            "the value is only a lower bound"
        )
    elif one.tuned.is_lower_bound:
        yield (
            "the chosen parameters leave messages unfinished on the reported seeds: the defaults "
            "are recommended"
        )
    if math.isnan(one.answer.mean):
        yield "all runs failed on the reported seeds: no value is known"
    elif len(set(one.by_seed[0])) == 1:
        yield (
            "every seed gives the same values, so nothing shows whether the gain holds for other "
            "traffic"
        )


def _warnings(bench: Bench, found: Sequence[Tuned]) -> list[str]:
    """Return the warnings of the recommended parameters, and doubts, each with its protocols."""
    plans = (planned(bench, one.protocol, one.recommended) for one in found)
    own = dict.fromkeys(text for plan in plans for text in plan.warnings)
    return [*own, *_shared((one.protocol, text) for one in found for text in _doubts(one))]


def answered(
    name: str,
    bench: Bench,
    searches: Sequence[Search],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: tuple[Sequence[int], int],
) -> Study:
    """Measure the finalists of all searches, and return the study."""
    searched, count = seeds
    selection = range(SELECTION_FROM, SELECTION_FROM + count)
    report = range(REPORT_FROM, REPORT_FROM + count)
    goal = goals[0][0]
    finalists = [_measured(bench, one, goals, selection) for one in searches]
    best = _best(goals[1], ((one.bounded, one.is_known) for own in finalists for one in own))
    found = []
    for search, own in zip(searches, finalists, strict=True):
        pair = (own[0].candidate, _chosen(own, goals, best))
        found.append(_tuned(bench, search, pair, goals, (searched, report)))
    everything = [one for search in searches for one in search.candidates()]
    front = _pareto(feasible(everything), goals[0]) if len(goals[0]) > 1 else []
    reported = _reported(bench, front, goals, report)
    compared = [of for one in found for of in zip(one.bounded, one.is_known, strict=True)]
    compared += [(one.bounded, one.is_known) for one in reported.values()]
    best = _best(goals[1], compared)
    found = _ordered(_checked(found, goals[1], best), goal)
    differences = {one.protocol: _behind(one, found[0], goal) for one in found[1:]}
    return Study(
        name=name,
        objectives=tuple(str(one) for one in goals[0]),
        constraints=tuple(str(one) for one in goals[1]),
        seeds=tuple(searched),
        report_seeds=tuple(report),
        protocols=tuple(found),
        differences=differences,
        front=tuple(_front(front, reported, goals, best)),
        candidates=tuple(everything),
        axes={one.protocol: tuple(one.axes) for one in searches},
        over={key: [str(one) for one in values] for key, values in bench.over.items()},
        warnings=tuple(_warnings(bench, found)),
    )
