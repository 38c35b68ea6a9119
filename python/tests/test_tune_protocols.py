"""Protocols that take part in a search, and those that are skipped."""

import math

import pytest

import tidegate
from tidegate._tune.search import Bench
from tuning import SCENARIO, small

pytest.importorskip("optuna")
pytest.importorskip("scipy")


@pytest.mark.parametrize("alone", [False, True])
def test_a_protocol_without_parameters_takes_part(tmp_path, alone):
    out, protocols = tmp_path / "out", ["ndp"] if alone else ["ndp", "swift"]
    options = {"params": None, "budget": 8, "cache": tmp_path / "cache"}
    bounds = ["goodput of small >= 0.1 best"]
    study = small(out, protocols=protocols, subject_to=bounds, **options)
    # The smallest budget has one candidate of a protocol without parameters.
    least = 1 if alone else 3
    assert len(small(protocols=protocols, **{**options, "budget": least}).candidates) == least
    with pytest.raises(tidegate.UsageError, match=f"at least {least}: |from 1 to"):
        small(protocols=protocols, **{**options, "budget": least - 1})
    assert [one.number for one in study.candidates if one.protocol == "ndp"] == [0]
    assert len(study.candidates) == (1 if alone else 5)
    own = next(one for one in study.protocols if one.protocol == "ndp")
    assert own.values == own.defaults == {} and own.default == own.tuned
    assert not math.isnan(own.default.mean) and own.meets_constraints
    assert "Only with defaults, no parameters to search: ndp." in repr(study)
    assert "it has no parameters to search" in (out / "ndp.toml").read_text()
    assert tidegate.load(out / "ndp.toml").resolved["transport"]["protocol"] == "ndp"


def test_a_protocol_without_messages_is_skipped(tmp_path, monkeypatch):
    measured, names = Bench.measured, ["ndp", "swift"]

    def without(bench, protocol, *given):
        found = measured(bench, protocol, *given)
        if protocol not in names[:1]:
            return found
        # Under the second value of `over`, no message finishes.
        return [
            [one, [it for it in other if "fct" not in it.metric and "slowdown" not in it.metric]]
            for one, other in found
        ]

    monkeypatch.setattr(Bench, "measured", without)
    monkeypatch.setattr("tidegate._tune.run._supported", lambda *_: (names, []))
    over = {"traffic.0.load": [0.4, 0.5]}
    options = {"final_seeds": 2, "budget": 4, "cache": tmp_path, "over": over}
    why = r"ndp: --over traffic.0.load=0.5: fct_mean of small: no message finished: increase dur"
    with pytest.warns(tidegate.TidegateWarning, match=f"^skipped {why}"):
        study = tidegate.tune(SCENARIO, "all", "min fct_mean of small", **options)
    assert [one.protocol for one in study.protocols] == ["swift"]
    with pytest.raises(tidegate.UsageError, match=f"^{why}"):
        tidegate.tune(SCENARIO, "ndp,swift", "min fct_mean of small", **options)


def test_all_protocols_that_can_run_take_part(tmp_path):
    options = {"threads": 2, "final_seeds": 2, "cache": tmp_path}
    goal, known = "min fct_mean of small", [one.name for one in tidegate.protocols()]
    ranges = {"swift.base_target": ("20us", "40us")}
    with pytest.warns(tidegate.TidegateWarning, match=r"^skipped retcp: .*circuits") as raised:
        study = tidegate.tune(SCENARIO, "all", goal, params=[], ranges=ranges, **options)
    assert raised[0].filename == __file__
    assert list(study.axes) == [name for name in known if name != "retcp"]
    tried = [one.protocol for one in study.candidates]
    assert "Only with defaults, no parameters selected: " in repr(study)
    assert tried.count("swift") == 100 // (len(known) - 1) and tried.count("tide") == 1
    with pytest.raises(tidegate.ScenarioError, match=r"--set duration=x: duration: found x"):
        tidegate.tune(SCENARIO, "all", goal, set=["duration=x"], **options)
    with pytest.raises(tidegate.UsageError, match=r"`all` cannot be combined"):
        tidegate.tune(SCENARIO, "swift,all", goal, **options)
    with pytest.raises(tidegate.ScenarioError, match=r'^--protocols: .*swfit, .*"dcqcn", "dctcp"'):
        tidegate.tune(SCENARIO, "swfit", goal, **options)
