"""The front of several objectives."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tidegate._tune import goals
from tidegate._tune.front import Reported, front_points, measure_front, pareto
from tidegate._tune.interval import Interval
from tidegate._tune.search import Candidate

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_the_front_has_lower_bounds(tmp_path):
    def metric(name, value, is_lower_bound=False):
        return SimpleNamespace(
            label="", metric=name, min_bytes=None, is_lower_bound=is_lower_bound, values=[value] * 2
        )

    # On the reported seeds, the first point is a lower bound, and the other is complete.
    measured = [
        [[metric("fct_p99", 1.0, is_lower_bound=True), metric("goodput", 5.0)]],
        [[metric("fct_p99", 9.0), metric("goodput", 6.0)]],
    ]
    bench = SimpleNamespace(measured=lambda *_: measured)
    tried = [Candidate("swift", {"x": i}, {}, [1.0 + i, 1.0 + i], number=i) for i in range(2)]
    goal = ([goals.objective("min fct_p99"), goals.objective("max goodput")], [])
    front = front_points(tried, measure_front(bench, tried, goal, [1, 2]), goal, ())
    assert [str(one.measured[0]) for one in front] == ["≥ 1 ± 0", "9 ± 0"]
    assert [one.holds for one in front] == [False, True]


def test_a_missing_value_is_the_worst_of_its_goal():
    one, missing = Interval.of([5.0, 5.0]), Interval.of([9.0, None])
    for text, worst in [("max goodput", -math.inf), ("min goodput", math.inf)]:
        found = Reported((missing, one), ())
        assert found.compared([goals.objective(text), goals.objective("min drops")]) == [worst, 5]


def test_equal_points_of_the_front_are_one():
    values = [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]
    tried = [Candidate("swift", {"x": i}, {}, of, number=i) for i, of in enumerate(values, 1)]
    tried[3] = replace(tried[3], number=0)
    wanted = [goals.objective("min fct_p99"), goals.objective("max goodput")]
    assert [one.number for one in pareto(tried, wanted)] == [2, 0]
