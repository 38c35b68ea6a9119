"""The table and the page of a study."""

import itertools
import warnings

import pytest

import tidegate
from tidegate._tune.interval import Interval
from tidegate._tune.search import LOWER_BOUND, Candidate
from tidegate._tune.study import FrontPoint, Study, Tuned

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def tuned(name="swift", value=None, **more):
    value = value or Interval.of([1.0, 2.0])
    options = {"gain": 0.0, "kept": None, "is_improved": False, "importance": {}, "curves": {}}
    return Tuned(name, {}, {}, value, value, value, **{**options, **more})


def study(protocols, **more):
    options = {
        "objectives": ("min fct_p99",),
        "constraints": (),
        "seeds": (1,),
        "report_seeds": (2,),
        "differences": {},
        "front": (),
        "candidates": tuple(Candidate(one.protocol, {}, {}, [1.0]) for one in protocols),
        "axes": {one.protocol: () for one in protocols},
        "over": {},
        "warnings": (),
    }
    return Study("mine", protocols=tuple(protocols), **{**options, **more})


def drawn(of):
    """Return the figures of a page."""
    pytest.importorskip("matplotlib")
    from tidegate._tune import page

    figures = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")
        patch.setattr(page.plt, "close", figures.append)
        page.page(of)
    return figures


def test_many_protocols_fit_the_page():
    first, second = drawn(study([tuned(one.name) for one in tidegate.protocols()]))
    boxes = [one.get_window_extent() for one in first.axes[0].get_xticklabels()]
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
    (legend,) = second.legends
    assert not legend.get_window_extent().overlaps(second.axes[0].get_window_extent())


@pytest.mark.parametrize(("kept", "text"), [(-0.001, " 0 %"), (-0.2, " -20 %"), (None, " -")])
def test_the_gain_kept_is_a_whole_percentage(kept, text):
    row = next(line for line in repr(study([tuned(kept=kept)])).splitlines() if "swift" in line)
    assert row.endswith(text)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Interval(1.0, 0.1, is_lower_bound=True), "increase duration or drain, so that messages"),
        # The run of a seed, or all, may have failed for any reason.
        (Interval(1.0, 0.1, missing=1), "no message finished (increase duration or drain), or r"),
        (Interval.of([]), "no message finished (increase duration or drain), or runs failed."),
    ],
)
def test_no_best_without_a_complete_value(value, why):
    shares = {"importance": {"beta": 0.75}}
    text = repr(study([tuned(value=value, **shares)]))
    assert f"No protocol has a complete value on these seeds: {why}" in text
    assert "Best:" not in text and "of the variation" not in text
    text = repr(study([tuned(value=value)], constraints=("drops <= 0",)))
    assert "No protocol that meets the constraints has a complete value on these" in text
    text = repr(study([tuned(**shares, meets_constraints=False)]))
    assert "No protocol meets the constraints" in text and "of the variation" not in text
    text = repr(study([tuned(**shares), tuned("sird", value)]))
    assert "Best: swift" in text and "\n   75 % of the variation: beta" in text


def test_no_best_without_a_difference():
    noise, apart = Interval.of([-1.0, 2.0]), Interval.of([1.0, 1.1])
    three = [tuned(), tuned("sird"), tuned("dctcp")]

    def last(protocols, *behind, **more):
        names = [one.protocol for one in protocols[1:]]
        differences = dict(zip(names, behind, strict=True))
        text = repr(study(protocols, differences=differences, **more))
        return next(line for line in text.splitlines() if "best" in line.lower() and "." in line)

    unclear = "No protocol is shown to be best; the best value is that of swift with its defaults:"
    for behind in [(noise, apart), (apart, noise)]:
        assert last(three, *behind).startswith(unclear)
    improved = tuned(is_improved=True)
    text = last([improved, *three[1:]], noise, noise)
    assert text.startswith(unclear.replace("its defaults:", ""))
    for others in [
        (three[1:], (apart, apart)),
        # A lower bound and a violated constraint rank behind without a difference.
        (
            [tuned("sird", Interval(1.0, 0.1, is_lower_bound=True))],
            (Interval.of([]),),
        ),
        ([tuned("sird", meets_constraints=False)], (noise,)),
        ([], ()),
    ]:
        assert last([three[0], *others[0]], *others[1]).startswith("Best: swift with its defaults")


@pytest.mark.parametrize(("states", "is_remedy"), [(["fail"], False), ([LOWER_BOUND], True)])
def test_the_remedy_is_for_unfinished_messages(states, is_remedy):
    # The defaults leave messages unfinished.
    tried = [
        Candidate("swift", {}, {}, [1.0], state=state, number=at, why="a reason")
        for at, state in enumerate([LOWER_BOUND, *states])
    ]
    found = study([tuned()], candidates=tuple(tried), axes={"swift": ("beta",)})
    why = found.why_default(found.best)
    assert why.startswith("no candidate could be compared with them")
    assert ("increase duration" in why) == is_remedy


def points(axes):
    """Return the coordinates of all points."""
    return {tuple(map(float, at)) for line in axes.lines for at in line.get_xydata()}


def test_the_page_marks_lower_bounds():
    goals = ("min fct_p99", "min queue_max")
    bound, value = Interval(7.0, 0.1, is_lower_bound=True), Interval(3.0, 0.1)
    front = [
        FrontPoint(f"front-{at}", "swift", at, {}, (1.0, 1.0), pair, holds=True)
        for at, pair in enumerate([(value, value), (bound, value), (value, bound)], 1)
    ]
    tried = [
        Candidate("swift", {}, {}, [5.0, 6.0], number=0),
        Candidate("swift", {}, {}, [0.5, 0.6], number=1, state=LOWER_BOUND),
        # Its value is of one seed, or of a short run.
        Candidate("swift", {}, {}, [0.7, 0.8], number=2, state="pruned"),
    ]
    found = [tuned(value=bound), tuned("sird", value)]
    units = ("us", "")
    of = study(found, objectives=goals, units=units, front=tuple(front), candidates=tuple(tried))
    compared, progress, pareto = (one.axes[0] for one in drawn(of))
    assert (pareto.get_xlabel(), pareto.get_ylabel()) == ("fct_p99 (µs)", "queue_max")
    assert "min fct_p99 (us): means over" in repr(of) and "min fct_p99 (us)  min queue_max" in repr(
        of
    )
    assert [it.get_text() for it in compared.texts] == ["≥", "≥"]
    assert {round(it.xy[0]) for it in compared.texts} == {0}
    assert [it.get_text() for it in pareto.texts] == ["1", "2 ≥", "3 ≥"]
    # Only candidates that ran in full, and completed their messages, are there.
    assert points(progress) == {(0.0, 5.0)}
    assert (5.0, 6.0) in points(pareto) and not {(0.5, 0.6), (0.7, 0.8)} & points(pareto)


@pytest.mark.parametrize(
    ("states", "names", "text"),
    [
        ([LOWER_BOUND], ["swift", "sird"], "the defaults have only a lower bound: unfinished."),
        (["fail"], ["swift"], "the defaults failed: unfinished."),
        ([LOWER_BOUND, "complete"], ["swift"], "of 2 candidates, 1 has only a lower bound and 0"),
        ([LOWER_BOUND] * 2, ["swift", "sird"], "of 2 candidates each, 2 have only a lower bound"),
    ],
)
def test_a_note_of_several_protocols_is_one_line(states, names, text):
    tried = [
        Candidate(name, {}, {}, [1.0], state=state, why="" if state == "complete" else "unfinished")
        for name in names
        for state in states
    ]
    found = repr(study([tuned(one) for one in names], candidates=tuple(tried)))
    assert f"\n{', '.join(names)}: {text}" in found
    assert found.count("unfinished") == 1


@pytest.mark.parametrize(("has_selection", "why"), [(False, "to search"), (True, "selected")])
def test_a_protocol_with_its_defaults_has_a_reason(has_selection, why):
    of = study([tuned()], has_selection=has_selection)
    assert f"Only with defaults, no parameters {why}: swift." in repr(of)
    assert why in of.why_default(of.best)
