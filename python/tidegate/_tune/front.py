"""The Pareto front of a search, and its points on the reported seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate._tune.goals import Constraint, Objective, meets
from tidegate._tune.interval import Interval, value_of
from tidegate._tune.search import Bench, Candidate, bounded_means, is_known
from tidegate._tune.study import FrontPoint

FRONT = 10
"""Candidates of the Pareto front that are measured on the reported seeds."""


def _beats(one: Sequence[float], other: Sequence[float], goals: Sequence[Objective]) -> bool:
    """Whether values are nowhere worse than others, and better in one objective."""
    pairs = list(zip(goals, one, other, strict=True))
    no_worse = all(not goal.is_better(theirs, ours) for goal, ours, theirs in pairs)
    return no_worse and any(goal.is_better(ours, theirs) for goal, ours, theirs in pairs)


def pareto(candidates: Sequence[Candidate], goals: Sequence[Objective]) -> list[Candidate]:
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
class Reported:
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


def measure_front(
    bench: Bench,
    front: Sequence[Candidate],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: Sequence[int],
) -> dict[tuple[str, int], Reported]:
    """Measure points of the Pareto front on the reported seeds, by protocol and number."""
    found = {}
    chosen = _spread(front, FRONT)
    for protocol in dict.fromkeys(one.protocol for one in chosen):
        own = [one for one in chosen if one.protocol == protocol]
        results = bench.measured(protocol, [one.values for one in own], seeds)
        for one, conditions in zip(own, results, strict=True):
            found[protocol, one.number] = Reported(
                tuple(value_of(goal, conditions) for goal in goals[0]),
                bounded_means(goals[1], conditions),
                is_known(goals, conditions),
            )
    return found


def front_points(
    front: Sequence[Candidate],
    reported: Mapping[tuple[str, int], Reported],
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
            and meets(constraints, own.bounded, best)
            and not any(_beats(other, means[key], objectives) for other in means.values())
        )
        return replace(plain, measured=own.objectives, holds=holds)

    return [point(at, one) for at, one in enumerate(front, 1)]
