"""Objectives, constraints, and axes of parameters."""

import math

import pytest

import tidegate
from tidegate._tune import goals, space
from tuning import small

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_goals_are_parsed():
    goal = goals.objective("max goodput of small")
    assert (goal.of.metric, goal.of.label, goal.maximise) == ("goodput", "small", True)
    bound = goals.constraint("goodput >= 0.95 best")
    assert (bound.at_least, bound.bound, bound.of_best) == (True, 0.95, True)
    assert bound.excess(90.0, 100.0) == 5.0
    assert goals.constraint("drops <= 0").excess(3.0, 0.0) == 3.0
    for text in ("slowdown_p99", "min", "least x", "min a >= b"):
        with pytest.raises(tidegate.UsageError, match="--objective"):
            goals.objective(text)
    for text in ("drops", "drops = 1", "drops <= few", "drops <= 1 worst", "goodput >= 1e400"):
        with pytest.raises(tidegate.UsageError, match="--subject-to"):
            goals.constraint(text)


def test_the_best_value_of_a_constraint_is_a_known_one():
    bound = goals.constraint("goodput >= 90")
    values = [((math.nan,), True), ((5.0,), True), ((4.0,), True), ((9.0,), False)]
    assert goals.best_values([bound], values) == (5.0,)
    assert goals.best_values([bound], values[-1:]) == (9.0,)


def test_axes_come_from_the_catalog():
    catalog = {one.name: one for one in tidegate.protocols()}

    def of(named=None, ranges=None, present=None):
        found = space.axes(
            catalog["poseidon"], catalog.values(), named, ranges or {}, present or {}
        )
        return {one.name: one for one in found}

    own = of()
    assert own["p"].is_log and own["p"].text(12.3456789) == "12.35us"
    assert (own["p"].low, own["p"].high) == (5.0, 320.0)
    assert "header_bytes" not in own and "min_rto" not in own
    # The limits of the catalog apply: m is at most 2.
    assert own["m"].high == 2.0
    assert list(of(["poseidon.p", "sird.budget"])) == ["p"]
    ranged = of(["poseidon.k"], {"poseidon.k": ("1us", "3us")})["k"]
    assert (ranged.low, ranged.high, ranged.is_log) == (1.0, 3.0, False)
    # The scenario's value replaces the catalog's.
    assert (of(present={"p": "20us"})["p"].low, of(present={"p": "20us"})["p"].default) == (2.5, 20)
    # Every protocol has axes that Optuna accepts: whole numbers on a logarithmic scale from 1 on.
    for protocol in catalog.values():
        for axis in space.axes(protocol, catalog.values(), None, {}, {}):
            assert not (axis.is_log and axis.whole and axis.low < 1), (protocol.name, axis)
            assert not axis.whole or (axis.low, axis.high) == (round(axis.low), round(axis.high))
    stages = space.Axis("max_stage", 1, 40, 5, "", whole=True)
    assert stages.around(2) == [1.0, 2.0, 4.0, 8.0]
    # Flags and choices are searched if they are named.
    assert "update" not in own and "brownfield" not in own
    named = of(["poseidon.update", "poseidon.brownfield"])
    assert [named["update"].text(i) for i in (0, 2)] == ["exponential", "aimd"]
    assert named["brownfield"].around(0) == [0, 1] and named["brownfield"].text(1) is True
    for named, ranges, words in [
        (["poseidon.zeal"], None, "unknown parameter"),
        (["poseidon.c"], None, "no range"),
        (None, {"poseidon.update": ("ratio", "aimd")}, "has choices and no range"),
        (None, {"poseidon.k": ("3us", "1us")}, "smaller and a larger"),
        (None, {"poseidon.k": ("fast", "slow")}, "found 'fast'"),
        (None, {"poseidon.k": ("3us", "9us")}, "includes 2us, the value of the scenario"),
        (None, {"poseidon.m": (0.1, 5)}, "within 0.001 and 2.0"),
    ]:
        with pytest.raises(tidegate.UsageError, match=words):
            of(named, ranges)


def test_choices_are_searched_if_named(tmp_path):
    named = ["poseidon.update", "poseidon.small_window_increase"]
    load = {"duration": "400us", "traffic.1.load": 0.35}
    options = {"protocols": ["poseidon"], "params": named, "set": load, "cache": tmp_path}
    study = small(tmp_path / "out", **options)
    increase, update = study.axes["poseidon"]
    tried = {one.values["update"] for one in study.candidates}
    assert tried == set(update.choices) == {"exponential", "ratio", "aimd"}
    best = study.best
    assert best.values.keys() == {"update", "small_window_increase"}
    assert [at for at, _ in best.curves["update"]] == [0, 1, 2]
    params = tidegate.load(tmp_path / "out" / "poseidon.toml").resolved["transport"]["params"]
    assert params["update"] in update.choices
    assert params["small_window_increase"] in increase.choices
