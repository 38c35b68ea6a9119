"""Directions and seeds of a search: minimised and maximised values, and which seeds count."""

from types import SimpleNamespace

import numpy as np
import pytest

from tidegate._tune import answer, goals, ranking, space
from tidegate._tune.interval import Interval
from tidegate._tune.search import Candidate, Search, storage
from tidegate._tune.study import Tuned

optuna = pytest.importorskip("optuna")
pytest.importorskip("scipy")

AXIS = space.Axis("x", 1.0, 64.0, 8.0, "", whole=False)
SEARCHED, REPORT = [1, 2], [11, 12, 13]


def conditions(values, is_lower_bound=False):
    metric = SimpleNamespace(
        label="", metric="goodput", min_bytes=None, is_lower_bound=is_lower_bound, values=values
    )
    return [[metric]]


class Runs:
    """Runs in which the objective is the parameter, and grows with the seed."""

    def __init__(self, unfinished=()):
        self.unfinished, self.seeds = unfinished, []

    def check(self, protocol, values):
        pass

    def measured(self, protocol, candidates, seeds):
        self.seeds.append(list(seeds))
        found = []
        for one in candidates:
            values = [one["x"] + 0.01 * one["x"] * (seed % 10) for seed in seeds]
            found.append(conditions(values, one["x"] in self.unfinished))
        return found


def reported(text, default, chosen, bench=None):
    """Return what is reported, where the search has preferred `chosen` by 4."""
    goal = goals.objective(text)
    better = 4.0 if goal.maximise else -4.0
    pair = (
        Candidate("swift", {"x": default}, {"x": default}, [10.0], number=0),
        Candidate("swift", {"x": chosen}, {"x": chosen}, [10.0 + better], number=1),
    )
    search = SimpleNamespace(protocol="swift", axes=[AXIS], importance=lambda: {"x": 1.0})
    return answer._tuned(bench or Runs(), search, pair, ([goal], []), (SEARCHED, REPORT))


@pytest.mark.parametrize(
    ("text", "default", "chosen", "is_improved"),
    [
        ("min goodput", 8.0, 6.0, True),
        ("min goodput", 6.0, 8.0, False),
        ("max goodput", 6.0, 8.0, True),
        ("max goodput", 8.0, 6.0, False),
    ],
)
def test_better_is_in_the_direction_of_the_goal(text, default, chosen, is_improved):
    one = reported(text, default, chosen)
    assert one.difference.excludes_zero and one.is_improved == is_improved
    assert one.gain == 4.0
    assert one.kept == pytest.approx(0.51 if is_improved else -0.51)


def test_a_gain_is_positive_only_if_the_search_had_one():
    for text, gain in [("min goodput", -5.0), ("max goodput", 5.0)]:
        goal = goals.objective(text)
        default, chosen = (
            Candidate("swift", {"x": x}, {"x": x}, [x], number=i)
            for i, x in enumerate([10.0, 15.0])
        )
        search = SimpleNamespace(protocol="swift", axes=[], importance=dict)
        one = answer._tuned(Runs(), search, (default, chosen), ([goal], []), (SEARCHED, REPORT))
        assert one.gain == gain and (one.kept is None) == (gain < 0)


def test_curves_have_complete_runs_of_the_search():
    bench = Runs(unfinished=[2.0])
    one = reported("min goodput", 10.0, 8.0, bench)
    assert bench.seeds == [REPORT, SEARCHED]
    # The values over seeds 1 and 2; no point where messages are unfinished.
    assert one.curves["x"] == [(x, pytest.approx(1.015 * x)) for x in (4.0, 8.0, 16.0, 32.0)]


@pytest.mark.parametrize(("text", "behind"), [("min drops", 2.0), ("max drops", -2.0)])
def test_worse_is_positive(text, behind):
    first, second = (
        Tuned(name, {}, {}, value, value, value, 0, None, False, {}, {}, (values, values))
        for name, values in [("a", (1.0, 2.0)), ("b", (3.0, 4.0))]
        for value in [Interval.of(values)]
    )
    assert ranking.behind(second, first, goals.objective(text)).mean == behind


@pytest.mark.parametrize(("text", "first"), [("max drops", "a"), ("min drops", "b")])
def test_importance_is_about_the_better_values(text, first):
    # High values depend on `a` alone, low ones on `b` alone.
    axes = [space.Axis(name, 0.0, 1.0, 0.5, "", whole=False) for name in "ab"]
    wanted = [goals.objective(one) for one in (text, "min goodput")]
    search = Search(None, "swift", axes, (wanted, []), [1], [], storage(None), 1)
    ranges = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in "ab"}
    random = np.random.default_rng(1)
    for _ in range(200):
        a, b = random.random(2)
        value = a if a > 0.8 else -b if b > 0.8 else 0.0
        search.study.add_trial(
            optuna.create_trial(
                params={"a": a, "b": b}, distributions=ranges, values=[value, random.random()]
            )
        )
    importance = search.importance()
    assert max(importance, key=importance.get) == first
