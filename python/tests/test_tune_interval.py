"""Confidence intervals over seeds."""

import pytest

from tidegate._tune.interval import Interval, paired_difference

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_interval_is_student_t():
    found = Interval.of([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.half_width == pytest.approx(2.4841, abs=1e-4)
    assert not found.excludes_zero
    assert Interval.of([5.0, 5.1, 5.2]).excludes_zero
    assert not Interval.of([-1.0, -1.0]).excludes_zero


def test_differences_omit_seeds_without_values():
    assert paired_difference([1.0, None, 3.0], [2.0, 2.0, 5.0]).mean == 1.5
    assert not paired_difference([1.0, None, 3.0], [9.0, 2.0, 11.1]).excludes_zero
