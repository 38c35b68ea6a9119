"""Finalists: their selection among candidates, and the choice of one."""

from types import SimpleNamespace

import pytest

from tidegate._tune import goals
from tidegate._tune.finalists import Finalist, choose_finalist, select_finalists
from tidegate._tune.search import Candidate

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_finalists_are_the_best_different_candidates():
    def of(number, beta, objective, excess=0.0):
        return Candidate("swift", {"beta": beta}, {}, [objective], [excess], number=number)

    default = of(0, 0.8, 5.0)
    tried = [of(1, 0.1, 4.0), of(2, 0.1, 4.0), of(3, 0.8, 1.0), of(4, 0.2, 3.0), of(5, 0.3, 9.0)]
    tried += [of(6, 0.4, 8.0), of(7, 0.5, 1.0, excess=1.0)]
    search = SimpleNamespace(candidates=lambda: [default, *tried])
    for text, numbers in [("min fct_p99", [0, 4, 1, 6]), ("max fct_p99", [0, 5, 6, 1])]:
        found = select_finalists(search, [goals.objective(text)])
        assert [one.number for one in found] == numbers


def test_the_chosen_finalist_meets_the_constraints():
    wanted = ([goals.objective("min fct_p99")], [goals.constraint("goodput >= 0.9 best")])

    def chosen(*measured):
        finalists = [
            Finalist(Candidate("swift", {}, {}, number=i), objective, (goodput,))
            for i, (objective, goodput) in enumerate(measured)
        ]
        return choose_finalist(finalists, wanted, (10.0,)).number

    assert chosen((5.0, 10.0), (4.0, 9.5), (3.0, 9.0), (2.0, 8.0), (None, 10.0)) == 2
    # Of equals, the defaults; and so if no finalist meets the constraint.
    assert chosen((3.0, 9.0), (3.0, 9.0)) == 0
    assert chosen((5.0, 8.0), (4.0, 7.0)) == 0
    # Defaults that violate it do not win.
    assert chosen((3.0, 8.0), (4.0, 9.0)) == 1
