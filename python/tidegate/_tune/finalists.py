"""The choice of a candidate among finalists, on seeds that the search did not use."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate._tune.goals import Constraint, Objective, meets
from tidegate._tune.search import (
    Bench,
    Candidate,
    Search,
    bounded_means,
    by_seed,
    feasible,
    is_known,
    is_open,
)

FINALISTS = 3
"""Candidates of each protocol, beside its defaults, that are measured on other seeds."""


def _different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the first of the candidates with equal parameters."""
    found: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        found.setdefault((one.protocol, repr(one.values)), one)
    return list(found.values())


def select_finalists(search: Search, goals: Sequence[Objective]) -> list[Candidate]:
    """Return the defaults, and the best other candidates that meet the constraints."""
    everything = search.candidates()
    default = next(one for one in everything if one.number == 0)
    others = [one for one in _different(feasible(everything)) if one.values != default.values]
    goal = goals[0]
    others.sort(key=lambda one: one.objectives[0], reverse=goal.maximise)
    return [default, *others[:FINALISTS]]


@dataclass(frozen=True)
class Finalist:
    """A candidate, with its mean values on the seeds that choose; `None` if a run failed."""

    candidate: Candidate
    objective: float | None
    bounded: tuple[float, ...]
    is_known: bool = True


def measure_finalists(
    bench: Bench,
    search: Search,
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    seeds: Sequence[int],
) -> list[Finalist]:
    """Measure the finalists of a search, the defaults first."""
    objectives, constraints = goals
    finalists = select_finalists(search, objectives)
    if len(finalists) == 1 and not constraints:
        return [Finalist(finalists[0], None, ())]
    results = bench.measured(search.protocol, [one.values for one in finalists], seeds)
    found = []
    for one, conditions in zip(finalists, results, strict=True):
        values = by_seed(objectives[0].of, conditions)
        is_missing = values is None or is_open(objectives[0], conditions)
        mean = None if is_missing else statistics.fmean(values or [])
        bounded = bounded_means(constraints, conditions)
        found.append(Finalist(one, mean, bounded, is_known(goals, conditions)))
    return found


def choose_finalist(
    finalists: Sequence[Finalist],
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    best: Sequence[float],
) -> Candidate:
    """Return the best finalist that meets the constraints; the defaults if none does."""
    goal, constraints = goals[0][0], goals[1]
    allowed = [
        (one.objective, one.candidate)
        for one in finalists
        if one.objective is not None and meets(constraints, one.bounded, best)
    ]
    if not allowed:
        return finalists[0].candidate
    first = max if goal.maximise else min
    return first(allowed, key=lambda pair: pair[0])[1]
