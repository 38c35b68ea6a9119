"""The answer of a search: finalists on seeds that the search did not use, and what matters."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidegate._tune.finalists import choose_finalist, measure_finalists
from tidegate._tune.front import front_points, measure_front, pareto
from tidegate._tune.goals import Constraint, Objective, best_values
from tidegate._tune.interval import Interval, paired_difference, value_of
from tidegate._tune.ranking import behind, check_constraints, order_protocols, warnings_of
from tidegate._tune.search import (
    Bench,
    Candidate,
    Search,
    bounded_means,
    by_seed,
    each_seed,
    feasible,
    is_known,
    is_open,
)
from tidegate._tune.study import CURVES, Study, Tuned
from tidegate.errors import ScenarioError

SELECTION_FROM = 1_000_001
"""First seed that chooses among finalists."""

REPORT_FROM = 2_000_001
"""First seed of the reported values: neither the search nor the choice has used it."""


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
    default_value, tuned_value = (value_of(goal, of) for of in (results[0], results[-1]))
    bounded = [bounded_means(constraints, conditions) for conditions in results]
    difference = Interval.of([])
    if not (default_value.is_lower_bound or tuned_value.is_lower_bound):
        difference = paired_difference(values[0], values[-1])
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
    finalists = [measure_finalists(bench, one, goals, selection) for one in searches]
    best = best_values(goals[1], ((one.bounded, one.is_known) for own in finalists for one in own))
    found = []
    for search, own in zip(searches, finalists, strict=True):
        pair = (own[0].candidate, choose_finalist(own, goals, best))
        found.append(_tuned(bench, search, pair, goals, (searched, report)))
    everything = [one for search in searches for one in search.candidates()]
    front = pareto(feasible(everything), goals[0]) if len(goals[0]) > 1 else []
    reported = measure_front(bench, front, goals, report)
    compared = [of for one in found for of in zip(one.bounded, one.is_known, strict=True)]
    compared += [(one.bounded, one.is_known) for one in reported.values()]
    best = best_values(goals[1], compared)
    found = order_protocols(check_constraints(found, goals[1], best), goal)
    differences = {one.protocol: behind(one, found[0], goal) for one in found[1:]}
    return Study(
        name=name,
        objectives=tuple(str(one) for one in goals[0]),
        constraints=tuple(str(one) for one in goals[1]),
        seeds=tuple(searched),
        report_seeds=tuple(report),
        protocols=tuple(found),
        differences=differences,
        front=tuple(front_points(front, reported, goals, best)),
        candidates=tuple(everything),
        axes={one.protocol: tuple(one.axes) for one in searches},
        over={key: [str(one) for one in values] for key, values in bench.over.items()},
        warnings=tuple(warnings_of(bench, found, goals)),
    )
