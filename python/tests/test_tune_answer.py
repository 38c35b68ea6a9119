"""The answer of a search: the objective over each important parameter."""

from types import SimpleNamespace

import pytest

from tidegate._tune import answer, goals, space
from tidegate._tune.search import Bench, Candidate
from tuning import SCENARIO

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_curves_omit_invalid_scenarios(tmp_path):
    bench = Bench(SCENARIO, [], {}, None, tmp_path, None, False)
    axis = space.Axis("largest_credit", 20, 736, 92, "", whole=True)
    search = SimpleNamespace(protocol="expresspass", axes=[axis])
    tuned = Candidate("expresspass", {"largest_credit": 92}, {"largest_credit": 92})
    goal = goals.objective("min slowdown_p99 of small")
    curves = answer._curves(bench, search, tuned, {"largest_credit": 1.0}, goal, [1])
    # The protocol needs at least its smallest credit of 84, and a burst of at least one credit.
    assert [at for at, _ in curves["largest_credit"]] == [92]
