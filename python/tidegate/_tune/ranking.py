"""The comparison of protocols on the reported seeds: constraints, order, differences, warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate import _native
from tidegate._arguments import changes, scenario
from tidegate._tune.goals import Constraint, Objective, meets
from tidegate._tune.interval import Interval, paired_difference
from tidegate._tune.search import Bench, planned
from tidegate._tune.study import Tuned
from tidegate._tune.text import shared


def check_constraints(
    found: Sequence[Tuned], constraints: Sequence[Constraint], best: Sequence[float]
) -> list[Tuned]:
    """Check the constraints on the reported seeds.

    Parameters that meet the constraints, with a value that is no lower bound, are better than
    others and than failed runs. If neither the defaults nor the chosen ones are such, the chosen
    ones have to be better, and may not differ in meeting the constraints.
    """

    def checked(tuned: Tuned) -> Tuned:
        allowed = [meets(constraints, values, best) for values in tuned.bounded]
        values = (tuned.default, tuned.tuned)
        default, own = (ok and of.is_complete for ok, of in zip(allowed, values, strict=True))
        is_improved = own if own != default else tuned.is_improved and allowed[0] == allowed[1]
        return replace(tuned, meets_constraints=allowed[is_improved], is_improved=is_improved)

    return [checked(one) for one in found]


def order_protocols(found: Sequence[Tuned], goal: Objective) -> list[Tuned]:
    """Return protocols, the best first.

    Those that violate a constraint, without values in some seeds, or with a lower bound come last.
    """

    def order(one: Tuned) -> tuple[bool, bool, int, bool, float]:
        value = one.answer
        mean = -value.mean if goal.maximise else value.mean
        missing = value.missing
        return not one.meets_constraints, math.isnan(mean), missing, value.is_lower_bound, mean

    return sorted(found, key=order)


def behind(one: Tuned, best: Tuned, goal: Objective) -> Interval:
    """Return by how much a protocol is worse than the best; NaN if either has a lower bound."""
    if one.answer.is_lower_bound or best.answer.is_lower_bound:
        return Interval.of([])
    pair = (best.by_seed[best.is_improved], one.by_seed[one.is_improved])
    return paired_difference(*(reversed(pair) if goal.maximise else pair))


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


def _of_slowdowns(
    bench: Bench, found: Sequence[Tuned], goals: tuple[Sequence[Objective], Sequence[Constraint]]
) -> list[str]:
    """Return the warning of slowdowns with different denominators, if a goal is a slowdown."""
    every: list[Objective | Constraint] = [*goals[0], *goals[1]]
    if not any("slowdown" in one.of.metric for one in every):
        return []
    sets = [changes(bench.changes(one.protocol, one.recommended)) for one in found]
    text = _native.ideal_paths_warning(scenario(bench.given), sets)
    return [] if text is None else [text]


def warnings_of(
    bench: Bench, found: Sequence[Tuned], goals: tuple[Sequence[Objective], Sequence[Constraint]]
) -> list[str]:
    """Return the warnings of the recommended parameters, and doubts, each with its protocols."""
    plans = (planned(bench, one.protocol, one.recommended) for one in found)
    own = dict.fromkeys(text for plan in plans for text in plan.warnings)
    unlike = _of_slowdowns(bench, found, goals)
    return [*unlike, *own, *shared((one.protocol, text) for one in found for text in _doubts(one))]
