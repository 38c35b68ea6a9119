"""Means over seeds with confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate._tune.goals import Objective
from tidegate._tune.search import each_seed, is_open
from tidegate.results import Metric


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


def value_of(goal: Objective, conditions: Sequence[Sequence[Metric]]) -> Interval:
    """Return the value of an objective on some seeds."""
    found = Interval.of(each_seed(goal.of, conditions))
    return replace(found, is_lower_bound=is_open(goal, conditions))


def paired_difference(one: Sequence[float | None], other: Sequence[float | None]) -> Interval:
    """Return the difference by seed, over the seeds that have both values."""
    pairs = zip(one, other, strict=False)
    return Interval.of([None if a is None or b is None else b - a for a, b in pairs])
