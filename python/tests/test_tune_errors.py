"""Searches that are refused, and the messages."""

import math

import pytest

import tidegate
from tidegate._tune.search import Bench
from tuning import SCENARIO

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_wrong_searches_are_refused(tmp_path):
    def tune(objective="min slowdown_p99 of small", **more):
        options = {"budget": 4, "params": ["swift.base_target"], "cache": tmp_path, **more}
        return tidegate.tune(SCENARIO, "swift", objective, **options)

    for objective, more, words in [
        ("min slowdown_p99", {}, "several labels have it: slowdown_p99 of large | small"),
        ("min slowdwn of small", {}, r"--objective: .*'slowdwn' \(did you mean slowdown_p"),
        ("min speed", {}, "--objective: found the metric 'speed', expected one of .*drops"),
        ("min job_completion", {}, "the runs lack it; they have .*drops"),
        ("min drops", {"budget": 1}, "--budget: found 1, expected at least 2: two candidates"),
        ("min drops", {"force": True, "out": None}, "--force"),
        ("min drops", {"ranges": {"swift.recovery": (1, 2)}}, "has choices and no range"),
        ("min drops", {"short_runs": 1}, "--short-runs: found 1"),
        (["min drops", "max goodput"], {"short_runs": 8}, "--short-runs: needs a single"),
        ("min drops", {"params": ["swfit.beta"]}, "--params: found 'swfit.beta', expected"),
        ("min drops", {"ranges": {"hpcc.eta": (0.5, 0.9)}}, "--range: found 'hpcc.eta'"),
        (["min drops", "max drops"], {}, "--objective: drops occurs twice"),
        ("min drops", {"params": ["swift.beta", "swift.beta"]}, "--params: swift.beta occurs"),
        ("min drops", {"over": "traffic.0.load=0.1"}, "--over: found 'traffic.* a mapping"),
        ("min drops", {"over": {"traffic.0.load": [0.5, 0.5]}}, "--over: .* found 0.5 and 0.5"),
        ("min drops", {"over": {"transport.params.base_target": ["30us"]}}, "is searched, too"),
        ("min fct_p99 of other", {}, "lack it for this label; labels that have it: large, small"),
    ]:
        with pytest.raises(tidegate.UsageError, match=words.replace("|", r"\|")):
            tune(objective, **{"out": tmp_path / "out", **more})
    for bound, words in [
        ("speed >= 1", "--subject-to: found the metric 'speed'"),
        ("fct_p99 of other <= 1", "lack it"),
    ]:
        with pytest.raises(tidegate.UsageError, match=words):
            tune(subject_to=bound, out=tmp_path / "out")
    flow = {"src": "h0", "dst": "h1", "size": "1MB"}
    ended = {**SCENARIO, "until": "done", "flows": [flow]}
    with pytest.raises(tidegate.UsageError, match=r"--short-runs: .* until"):
        tidegate.tune(ended, "swift", "min drops", short_runs=8)
    late = {"short_runs": 4, "set": {"traffic.0.start": "100us"}, "out": tmp_path / "out"}
    with pytest.raises(tidegate.ScenarioError, match=r"^--short-runs: .*which is 87500ns"):
        tune("min drops", **late)
    late = {**late, "set": None, "over": {"traffic.0.start": ["0us", "100us"]}}
    with pytest.raises(tidegate.ScenarioError, match=r"^--short-runs: --over .*which is 87500ns"):
        tune("min drops", **late)
    with pytest.raises(tidegate.UsageError, match=r"^--short-runs: .*without --over duration"):
        tune("min drops", **{**late, "over": {"duration": ["1ms", "2ms"]}})
    with pytest.raises(tidegate.ScenarioError, match="swfit"):
        tidegate.tune(SCENARIO, "swfit", "min drops", budget=4, out=tmp_path / "out")
    # The folder is created after all checks.
    assert not (tmp_path / "out").exists()


def test_unknown_metrics_are_refused_before_runs(monkeypatch):
    monkeypatch.setattr(Bench, "measured", lambda *_: pytest.fail("it ran"))
    for more in ({"objective": "min slowdwn"}, {"subject_to": "slowdwn <= 2"}):
        options = {"objective": "min drops", **more}
        with pytest.raises(tidegate.UsageError, match="did you mean slowdown_p"):
            tidegate.tune(SCENARIO, "swift", **options, budget=4, cache=False)


def test_errors_name_the_option_of_the_user(tmp_path):
    def tune(**more):
        options = {"budget": 4, "params": ["swift.base_target"], "final_seeds": 2, **more}
        goal = "min slowdown_p99 of small"
        return tidegate.tune(SCENARIO, "swift", goal, cache=tmp_path, **options)

    load = "traffic.0.load"
    for more, option, words in [
        ({"over": {"traffic.0.lod": [0.5]}}, "--over traffic.0.lod=0.5: ", "unknown key"),
        ({"over": {load: [0.5, 70.0]}}, "--over traffic.0.load=70.0: ", "expected a number from"),
        ({"over": {load: [math.nan]}}, "--over: traffic.0.load[0]: ", "expected a finite number"),
        ({"over": {load: 0.5}}, "--over: traffic.0.load: ", "found 0.5, expected a list"),
        ({"over": {load: "0.5"}}, "--over: traffic.0.load: ", "found '0.5', expected a list"),
        ({"over": {load: [0.5], "traffic.small.load": [1]}}, "--over traffic.small.load=1: ", load),
        ({"over": {"seed": [1, 2]}}, "--over: ", "found the key seed, expected --seeds"),
        ({"over": {"transport.protocol": ["swift"]}}, "--over ", '"--protocols" changes too'),
        ({"over": {"faults.failure": ["each-link"]}}, "--over: ", "expected failures by name"),
        ({"over": {load: [0.5]}, "set": {load: 0.3}}, "--over ", '"--set traffic.0.load=0.3" ch'),
        ({"ranges": {"swift.nope": (1, 2)}}, "--range: swift.nope: ", "unknown parameter"),
        ({"ranges": {"swift.fs_range": ("1", "2")}}, "--range: ", "values with a unit: ps, ns, us"),
        ({"ranges": {"swift.beta": (2, 1)}}, "--range: swift.beta: ", "found 2..1, expected a"),
    ]:
        with pytest.raises((tidegate.ScenarioError, tidegate.UsageError)) as why:
            tune(**more)
        assert str(why.value).startswith(option) and words in str(why.value)
    # A value of `--set` is the default of the search.
    default = tune(set={"transport.params.base_target": "30us"}).best.defaults
    assert default == {"base_target": "30us"}
