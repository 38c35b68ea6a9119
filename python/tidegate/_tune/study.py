"""The result of a search, and its table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidegate._tune.interval import Interval
from tidegate._tune.search import LOWER_BOUND, Candidate, feasible
from tidegate._tune.space import Axis
from tidegate._tune.text import EACH, aligned, grouped, listed, shared

CURVES = 3
"""Parameters of each protocol, the most important ones, with a curve."""


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
    left_out: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """Parameters that were not searched, because they have no effect in the scenario, by protocol.

    Each has the reason.
    """

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

    @property
    def is_shown_best(self) -> bool:
        """Whether the best answer is shown to differ from those of all comparable protocols."""
        # Lower bounds and violated constraints decide the order without a difference.
        others = (
            one
            for one in self.protocols[1:]
            if one.meets_constraints == self.best.meets_constraints and one.answer.is_complete
        )
        found = (self.differences.get(one.protocol) for one in others)
        return all(behind is not None and behind.excludes_zero for behind in found)

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
        lines = aligned(rows)
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
        for name, omitted in self.left_out.items():
            of = "; ".join(f"{', '.join(each)} ({why})" for why, each in grouped(omitted).items())
            notes.append(f"Not searched, as they have no effect: parameters of {name}: {of}.")
        notes.extend(f"Mean over {key} = {', '.join(each)}." for key, each in self.over.items())
        pairs = ((one.protocol, text) for one in self.protocols for text in self._remarks(one))
        notes.extend(shared(pairs))
        best = self.best
        if not best.meets_constraints:
            notes.append("No protocol meets the constraints on these seeds.")
        elif not best.answer.is_complete:
            which = " that meets the constraints" if self.constraints else ""
            why = "increase duration or drain, so that messages finish"
            if not best.answer.is_lower_bound:
                why = "no message finished (increase duration or drain), or runs failed"
            notes.append(f"No protocol{which} has a complete value on these seeds: {why}.")
        else:
            first = "Best:"
            if not self.is_shown_best:
                first = "No protocol is shown to be best; the best value is that of"
            how = f"its defaults: {self.why_default(best)}"
            if best.is_improved:
                how = listed(best.values)
            notes.append(f"{first} {best.protocol} with {how}.")
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
                f"of {len(own)} candidates{EACH}, {bounds} {have} only a lower bound and "
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
        return aligned(rows)
