"""The comparison of protocols: constraints, order, differences, and warnings."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tidegate._tune import goals, ranking
from tidegate._tune.interval import Interval
from tidegate._tune.search import Bench
from tidegate._tune.study import Tuned
from tuning import SCENARIO

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_answers_are_of_what_is_recommended():
    bound = goals.constraint("goodput >= 90")

    def tuned(name, default, value, is_improved, bounded=((100.0,), (100.0,))):
        intervals = [Interval.of([one, one + 1]) for one in (default, value)]
        difference = Interval.of([value - default, value - default + 0.1])
        return Tuned(
            name, {}, {}, *intervals, difference, 1.0, 1.0, is_improved, {}, {}, bounded=bounded
        )

    # The tuned parameters violate a bound that the defaults meet, and the other way round.
    pair = [
        tuned("a", 10.0, 2.0, True, ((100.0,), (50.0,))),
        tuned("b", 10.0, 12.0, False, ((50.0,), (100.0,))),
        tuned("c", 9.0, 8.0, False),
    ]
    checked = ranking.check_constraints(pair, [bound], (100.0,))
    assert [one.is_improved for one in checked] == [False, True, False]
    assert [one.meets_constraints for one in checked] == [True, True, True]
    assert [one.answer.mean for one in checked] == [10.5, 12.5, 9.5]


@pytest.mark.parametrize(
    ("default", "chosen", "is_improved", "meets"),
    [
        # Whether each meets the bound, and whether its value is a lower bound.
        ((False, False), (True, True), False, False),
        ((True, True), (False, False), False, True),
        ((True, True), (True, False), True, True),
        ((True, False), (True, True), False, True),
        ((True, True), (True, True), False, True),
        ((False, True), (True, False), True, True),
        ((False, False), (True, False), True, True),
        ((False, False), (False, False), True, False),
    ],
)
def test_lower_bounds_are_not_preferred(default, chosen, is_improved, meets):
    bound = goals.constraint("goodput >= 90")
    own = [
        replace(Interval.of([value, value + 1]), is_lower_bound=is_open)
        for value, (_, is_open) in ((10.0, default), (2.0, chosen))
    ]
    bounded = tuple((100.0 if ok else 50.0,) for ok, _ in (default, chosen))
    difference = Interval.of([-8.0, -8.1])
    tuned = Tuned("a", {}, {}, *own, difference, 1.0, 1.0, not chosen[1], {}, {}, bounded=bounded)
    (checked,) = ranking.check_constraints([tuned], [bound], (100.0,))
    assert (checked.is_improved, checked.meets_constraints) == (is_improved, meets)
    (text,) = warned(checked) or [""]
    assert ("is only a lower bound" in text) == (default, chosen)[is_improved][1]
    assert ("leave messages unfinished" in text) == (chosen[1] and not default[1])


def test_protocols_are_in_the_order_of_their_answers():
    def tuned(name, value, is_lower_bound=False, meets=True, missing=0):
        value = Interval(value, 1.0, is_lower_bound, missing=missing)
        nothing = Interval.of([])
        return Tuned(
            name, {}, {}, value, value, nothing, 0, None, False, {}, {}, meets_constraints=meets
        )

    found = [
        tuned("violates", 1.0, meets=False),
        tuned("failed", math.nan),
        tuned("none in a seed", 1.0, missing=1),
        tuned("bound", 2.0, is_lower_bound=True),
        tuned("slow", 4.0),
        tuned("fast", 3.0),
    ]
    for text, first in [("min fct_p99", ["fast", "slow"]), ("max fct_p99", ["slow", "fast"])]:
        names = [one.protocol for one in ranking.order_protocols(found, goals.objective(text))]
        assert names == [*first, "bound", "none in a seed", "failed", "violates"]


def test_lower_bounds_have_no_differences():
    # The seeds have values, but messages are unfinished with the defaults of `b`.
    one, bound = Interval.of([1.0, 2.0]), replace(Interval.of([8.0, 9.1]), is_lower_bound=True)
    values = ((1.0, 2.0), (8.0, 9.1))
    first, second = (
        Tuned(name, {}, {}, value, value, one, 0, None, False, {}, {}, (by_seed, by_seed))
        for name, value, by_seed in (("a", one, values[0]), ("b", bound, values[1]))
    )
    assert str(ranking.behind(second, first, goals.objective("min fct_p99"))) == "-"
    third = replace(second, default=one)
    assert ranking.behind(third, first, goals.objective("min fct_p99")).mean == 7.05


def test_a_missing_seed_is_worse_than_any():
    partial = Interval.of([92.4, 134.5, None])
    assert str(partial).endswith("(n = 2 of 3)") and not partial.is_complete
    whole = Interval.of([200.0, 201.0, 202.0])
    tuned = Tuned("a", {}, {}, whole, partial, partial, 0, None, True, {}, {})
    (checked,) = ranking.check_constraints([tuned], [], ())
    assert checked.answer == whole


def warned(*tuned):
    """Return the warnings of protocols whose scenarios have none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "planned", lambda *_: SimpleNamespace(warnings=()))
        return ranking.warnings_of(None, tuned, ((), ()))


def test_different_ideal_times_are_warned_of():
    # Two uplinks together are faster than one, which some protocols use alone.
    slow = {"rate": "40Gbps", "delay": "1us"}
    racks = {"kind": "leaf-spine", "racks": 2, "hosts_per_rack": 2, "spines": 2}
    given = {**SCENARIO, "fabric": {**racks, "fabric_link": slow}}
    bench = Bench(given, [], {}, 1, False, None, False)
    nothing = Interval.of([])
    pair = [
        Tuned(name, {}, {}, nothing, nothing, nothing, 0, None, False, {}, {})
        for name in ("swift", "sird")
    ]

    def found(protocols, objective, *bounds):
        wanted = ([goals.objective(objective)], [goals.constraint(one) for one in bounds])
        texts = ranking.warnings_of(bench, protocols, wanted)
        return [text for text in texts if "different denominators" in text]

    (text,) = found(pair, "min slowdown_p99")
    assert "of one path for swift, and" in text and "together for sird" in text
    assert found(pair, "min fct_p99", "slowdown_p50 <= 2") == [text]
    assert not found(pair, "min fct_p99") and not found(pair[:1], "min slowdown_p99")


def test_failed_runs_are_not_equal_values():
    def of(*values):
        value = Interval.of([one for one in values if one is not None])
        return warned(
            Tuned("a", {}, {}, value, value, value, 0, None, False, {}, {}, (values, values))
        )

    for values in [(), (None, None)]:
        assert [text for text in of(*values) if "failed" in text] == of(*values) != []
    (text,) = of(1.0, 1.0)
    assert "every seed gives the same values" in text
    assert not of(1.0, 2.0) and not of(None, 2.0)
    # A warning of several protocols is one line.
    value = Interval.of([1.0, 1.0])
    pair = [
        Tuned(name, {}, {}, value, value, value, 0, None, False, {}, {}, ((1.0, 1.0), (1.0, 1.0)))
        for name in ("a", "b")
    ]
    assert warned(*pair) == [f"a, b: {text.removeprefix('a: ')}"]
    # If the runs of the defaults failed, the chosen parameters are recommended.
    failed, value = Interval.of([]), Interval.of([1.0, 2.0])
    tuned = Tuned("a", {}, {}, failed, value, failed, 0, None, False, {}, {})
    (checked,) = ranking.check_constraints([tuned], [], ())
    assert checked.is_improved and checked.answer == value
