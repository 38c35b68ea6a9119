"""Objectives and constraints on the metrics of a sweep."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate import _native
from tidegate.errors import UsageError
from tidegate.results import Metric

_SUFFIXES = ("", "_gbps", "_us", "_bytes", "_total_gbps", "_mean_us")
"""Endings that a name may omit: `fct_p99` is `fct_p99_us`, `goodput` is `goodput_total_gbps`."""

_NAME = r"(?P<metric>[a-z0-9_]+)(?:\s+of\s+(?P<label>.+?))?"
_OBJECTIVE = re.compile(rf"(?P<sense>min|max)\s+{_NAME}\s*$")
_CONSTRAINT = re.compile(
    rf"{_NAME}\s*(?P<sign><=|>=)\s*(?P<bound>[0-9.eE+-]+)(?P<unit>\s+best)?\s*$"
)


def _is_of_messages(metric: str) -> bool:
    """Whether only finished messages have a metric."""
    return "fct" in metric or "slowdown" in metric


@dataclass(frozen=True)
class Quantity:
    """A metric, of one label or of the whole run."""

    metric: str
    label: str | None

    def __str__(self) -> str:
        """Return the text that names it."""
        return self.metric if self.label is None else f"{self.metric} of {self.label}"

    def among(self, metrics: Iterable[Metric]) -> Metric | None:
        """Find the metric of a run or point; `None` if it has no value there.

        Without a label: the value of the whole run, that of all labels together, or that of the
        only label.
        """
        names = {self.metric + suffix for suffix in _SUFFIXES}
        found = [one for one in metrics if one.metric in names and one.min_bytes is None]
        if self.label is not None:
            found = [one for one in found if one.label == self.label]
        whole = [one for one in found if one.label in ("", "all")]
        chosen = whole or found
        return chosen[0] if len(chosen) == 1 else None

    def explained(self, metrics: Iterable[Metric]) -> str:
        """Explain why a point lacks the metric."""
        listed = list(metrics)
        own = [one for one in listed if one.label == self.label] or listed
        if _is_of_messages(self.metric) and not any(_is_of_messages(it.metric) for it in own):
            return f"{self}: no message finished: increase duration or drain"
        names = {self.metric + suffix for suffix in _SUFFIXES}
        labels = sorted({one.label for one in listed if one.metric in names and one.label})
        if self.label is not None:
            having = f"labels that have it: {', '.join(labels)}" if labels else "no label has it"
            return f"{self}: the runs lack it for this label; {having}"
        if labels:
            return f"{self}: several labels have it: {self.metric} of {' | '.join(labels)}"
        known = sorted({one.metric for one in listed if one.min_bytes is None})
        return f"{self}: the runs lack it; they have {', '.join(known)}"


@dataclass(frozen=True)
class Objective:
    """A quantity to minimise or maximise."""

    of: Quantity
    maximise: bool

    def __str__(self) -> str:
        """Return the text that defines it."""
        return f"{'max' if self.maximise else 'min'} {self.of}"

    def is_better(self, one: float, other: float) -> bool:
        """Whether `one` is better than `other`."""
        return one > other if self.maximise else one < other


@dataclass(frozen=True)
class Constraint:
    """A bound on a quantity: a number, or a factor of the best value of comparable candidates."""

    of: Quantity
    at_least: bool
    bound: float
    of_best: bool

    def __str__(self) -> str:
        """Return the text that defines it."""
        best = " best" if self.of_best else ""
        return f"{self.of} {'>=' if self.at_least else '<='} {self.bound:g}{best}"

    def excess(self, value: float, best: float) -> float:
        """How far a value is beyond the bound; at most 0 if it is within it.

        An infinite value, of which only a lower bound is known, is within none.
        """
        if value == math.inf and not self.at_least:
            return math.inf
        bound = self.bound * best if self.of_best else self.bound
        return bound - value if self.at_least else value - bound


def objective(text: str) -> Objective:
    """Parse `min METRIC` or `max METRIC`, with ` of LABEL` for one label."""
    found = _OBJECTIVE.match(text.strip())
    if found is None:
        raise UsageError(
            f"--objective: found {text!r}, expected min or max and a metric, such as "
            '"min slowdown_p99" or "max goodput of search"'
        )
    return Objective(Quantity(found["metric"], found["label"]), found["sense"] == "max")


def constraint(text: str) -> Constraint:
    """Parse `METRIC >= NUMBER`, `METRIC <= NUMBER`, or either with ` best` after the number."""
    found = _CONSTRAINT.match(text.strip())
    try:
        if found is None:
            raise ValueError
        bound = float(found["bound"])
        if not math.isfinite(bound):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--subject-to: found {text!r}, expected a metric, >= or <=, and a number or a factor "
            'of the best value, such as "goodput >= 0.95 best" or "drops <= 0"'
        ) from None
    of = Quantity(found["metric"], found["label"])
    return Constraint(of, found["sign"] == ">=", bound, found["unit"] is not None)


def check_metrics(option: str, quantities: Iterable[Quantity]) -> None:
    """Raise an error if a metric does not exist, whatever the scenario."""
    known = _native.metrics()
    for of in quantities:
        if {of.metric + suffix for suffix in _SUFFIXES}.isdisjoint(known):
            near = difflib.get_close_matches(of.metric, known, n=3, cutoff=0.7)
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            raise UsageError(
                f"{option}: found the metric {of.metric!r}{hint}, expected one of "
                f"{', '.join(known)}"
            )


def best_values(
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


def meets(
    constraints: Sequence[Constraint], values: Sequence[float], best: Sequence[float]
) -> bool:
    """Whether values meet all constraints, with the best value of each constraint's metric."""
    triples = zip(constraints, values, best, strict=True)
    return all(one.excess(value, most) <= 0 for one, value, most in triples)
