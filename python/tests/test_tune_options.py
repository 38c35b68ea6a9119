"""Options of a search, and why it refuses them or skips a protocol."""

import json
import re
from types import SimpleNamespace

import pytest

import tidegate
from tidegate._tune import goals, run, space
from tidegate._tune.search import Bench, lacking
from tuning import SCENARIO, small

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_a_seed_without_a_value_is_named():
    def metrics(*values):
        return [SimpleNamespace(label="", metric="fct_p99_us", min_bytes=None, values=values)]

    goal, over = goals.objective("min fct_p99"), {"traffic.0.load": [0.3, 0.6]}
    assert lacking([goal], [metrics(1.0, 2.0), metrics(3.0, 4.0)], over) is None
    why = lacking([goal], [metrics(1.0, 2.0), metrics(3.0, None)], over)
    assert why.startswith("--over traffic.0.load=0.6: fct_p99: seed 2 has no value: ")
    assert why.endswith("no message finished (increase duration or drain), or its run failed")


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("drops", "drops"),
        ("goodput", "goodput_gbps"),
        ("fct_p99", "fct_p99_us"),
        ("queue_max", "queue_max_bytes"),
        ("goodput", "goodput_total_gbps"),
        ("fct", "fct_mean_us"),
    ],
)
def test_names_of_metrics_omit_units(text, metric):
    one = SimpleNamespace(label="", metric=metric, min_bytes=None)
    assert goals.objective(f"min {text}").of.among([one]) is one
    assert goals.objective(f"min {text}x").of.among([one]) is None


def test_ranges_may_be_negative():
    (axis,) = axes(None, {"poseidon.q": ("-1", "-0.1")}, only="q")
    assert (axis.low, axis.high, axis.default, axis.is_log) == (-1.0, -0.1, -0.5, False)
    assert axis.text(-0.25) == -0.25 and axis.around(-0.5) == [-1.0, -0.5, -0.25, -0.125]
    for given, words in [
        (("-3", "-0.1"), "expected a range within -2.0 and -0.01"),
        (("-1", "-1us"), "found '-1us', expected a number"),
        (("-1e400", "-0.1"), "found '-1e400', expected a number"),
    ]:
        with pytest.raises(tidegate.UsageError, match=rf"^--range: poseidon.q: .*{words}"):
            axes(None, {"poseidon.q": given})


def test_defaults_keep_all_their_digits(tmp_path):
    named = {"protocols": "powertcp", "params": ["powertcp.beta"], "out": tmp_path / "out"}
    given = {"transport.params.beta": "16704B"}
    found = tune(set=given, cache=tmp_path / "cache", **named)
    assert found.best.defaults == found.candidates[0].values == {"beta": "16704B"}
    (path,) = (tmp_path / "out").glob("*.toml")
    text = found.best.recommended["beta"]
    assert f'beta = "{text}"' in path.read_text()
    # Other values have four digits, and those of the catalog are as they are.
    (axis,) = axes(["dcqcn.g"], {})
    assert axis.text(1 / 256) == 1 / 256 and axis.text(1 / 250.1) == 0.003998
    (axis,) = axes(["poseidon.p"], {})
    assert axis.text(40.0) == "40us" and axis.text(40.0001) == "40us"


@pytest.mark.parametrize("name", ["--range", "--params"])
def test_unsearchable_parameters_are_explained(name):
    key = "homa.cutoffs"
    given = ([], {key: ("1KB", "2KB")}) if name == "--range" else ([key], {})
    with pytest.raises(tidegate.UsageError, match=rf"^{name}: {key}: a list of sizes cannot be"):
        axes(*given)
    with pytest.raises(tidegate.UsageError, match=r"11.5..12.5, expected at least two whole"):
        axes(None, {"swift.plb_rounds": (11.5, 12.5)})


def axes(named, ranges, only=None):
    known = {one.name: one for one in tidegate.protocols()}
    (name,) = {one.partition(".")[0] for one in [*(named or ()), *ranges]}
    found = space.axes(known[name], known.values(), named, ranges, {})
    return [one for one in found if only in (None, one.name)]


def tune(objective="min slowdown_p99 of small", protocols="swift", **more):
    options = {"budget": 2, "params": ["swift.base_target"], "final_seeds": 2, "threads": 1}
    return tidegate.tune(SCENARIO, protocols, objective, **{**options, **more})


def test_an_objective_has_one_name(tmp_path):
    for pair, words in [
        (["min drops", "max drops"], "drops"),
        (["min fct_p99 of small", "max fct_p99_us of small"], "fct_p99_us of small"),
    ]:
        with pytest.raises(tidegate.UsageError, match=f"^--objective: {words} occurs twice"):
            tune(pair, out=tmp_path / "out", cache=tmp_path / "cache")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("values", [("200us", "0.2ms"), (0.5, "0.5"), (1, 1.0), ("none", "none")])
def test_conditions_are_different(values):
    words = f"^--over: key: found {values[0]} and {values[1]}, expected different values"
    with pytest.raises(tidegate.UsageError, match=words):
        tune(over={"key": values})
    with pytest.raises(tidegate.UsageError, match=r"^--over: key: found no value"):
        tune(over={"key": []})


def test_a_candidate_names_its_parameter():
    over = {"traffic.0.load": [0.3]}
    bench = Bench(SCENARIO, [], over, 1, False, None, False)
    with pytest.raises(tidegate.ScenarioError) as why:
        bench.check("expresspass", {"largest_credit": 20})
    assert str(why.value).startswith("transport.params.largest_credit=20: ")
    assert "--vary" not in str(why.value)


def test_valid_candidates_are_checked_at_once(monkeypatch):
    missing, calls = tidegate._native.missing_runs, []

    def counted(*given):
        calls.append(given)
        return missing(*given)

    monkeypatch.setattr(tidegate._native, "missing_runs", counted)
    over = {"traffic.0.load": [0.1, 0.2, 0.3], "drain": ["1ms", "2ms"]}
    bench = Bench(SCENARIO, [], over, 1, False, None, False)
    bench.check("swift", {"beta": 0.5})
    assert len(calls) == 1


@pytest.mark.parametrize("is_file", [False, True])
def test_protocols_that_a_condition_excludes(tmp_path, is_file):
    # The headroom of PFC needs a larger buffer.
    given = {**SCENARIO, "switch": {"latency": "500ns"}}
    path = tmp_path / "mine.toml"
    path.write_text(tidegate._native.toml_document(json.dumps(given)))
    over = {"switch.buffer": ["500KB", "20KB"], "drain": ["1ms"]}
    bench = Bench(path if is_file else given, [], over, 1, False, None, False)
    found, refused = run._supported(bench, ["dcqcn", "swift"])
    assert found == ["swift"]
    (text,) = refused
    where = "switch.buffer=20KB, drain=1ms: .*switch.pfc"
    assert re.match(f"skipped dcqcn: --over {where}: ", text), text
    # A candidate that every condition refuses names none.
    with pytest.raises(tidegate.ScenarioError, match=r"^transport.params.beta=70.0: "):
        bench.check("swift", {"beta": 70.0})
    wrong = Bench(SCENARIO, [], {"switch.bufer": ["20KB"]}, 1, False, None, False)
    with pytest.raises(tidegate.ScenarioError, match=r'^--over switch.bufer="20KB": .*unknown key'):
        run._supported(wrong, ["retcp", "dcqcn", "swift"])


def test_an_invalid_scenario_excludes_no_protocol():
    # The value is wrong for the protocol of the scenario, and valid for another.
    transport = {"protocol": "swift", "params": {"beta": 1.2}}
    bench = Bench({**SCENARIO, "transport": transport}, [], {}, 1, False, None, False)
    with pytest.raises(tidegate.ScenarioError, match=r"beta: .*1\.2"):
        run._supported(bench, ["swift", "dcpim"])


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--range", {"ranges": {"dctcp.g": ("0.01",)}}),
        ("--range", {"ranges": {"dctcp.g": 5}}),
        ("--range", {"ranges": {"dctcp.g": "12"}}),
        ("--range", {"ranges": {5: (1, 2)}}),
        ("--range", {"ranges": ["dctcp.g"]}),
        ("--objective", {"objective": 5}),
        ("--objective", {"objective": [5]}),
        ("--subject-to", {"subject_to": 5}),
        ("--protocols", {"protocols": [5]}),
        ("--params", {"params": [3]}),
        ("--out", {"out": 5}),
        ("--cache", {"cache": 5}),
        ("--set", {"set": 5}),
        ("--set", {"set": [5]}),
    ],
)
def test_types_are_checked(option, wrong):
    options = {"protocols": "dctcp", "objective": "min drops", "params": ["dctcp.g"], **wrong}
    (value,) = (one for one in wrong.values())
    with pytest.raises(tidegate.UsageError, match=rf"^{option}: .*found .*, expected a") as why:
        tune(**options)
    (found,) = value.values() if isinstance(value, dict) else [value]
    assert repr(found) in str(why.value)


def test_numbers_may_be_those_of_numpy(tmp_path):
    number = pytest.importorskip("numpy").int64
    options = {name: number(2) for name in ("budget", "seeds", "short_runs", "final_seeds")}
    options.update(search_seed=number(1), threads=number(1))
    folders = {"out": tmp_path / "out", "cache": tmp_path / "cache"}
    assert len(tune(**options, **folders).candidates) == 2
    settings = json.loads((tmp_path / "out" / "search.json").read_text())
    assert (settings["seeds"], settings["short_runs"], settings["search_seed"]) == (2, 2, 1)


def test_searches_alternate_by_batches(tmp_path, monkeypatch):
    check, tried = Bench.check, []

    def checked(bench, protocol, *given):
        tried.append(protocol)
        if len(tried) == 5:
            raise tidegate.ScenarioError("invalid")
        if len(tried) == 6:
            raise KeyboardInterrupt
        return check(bench, protocol, *given)

    monkeypatch.setattr(Bench, "check", checked)
    options = {"params": ["swift.base_target", "poseidon.p"], "budget": 12, "threads": 2}
    folders = {"out": tmp_path / "out", "cache": tmp_path / "cache"}
    pair = "swift,poseidon"
    with pytest.raises(KeyboardInterrupt):
        tune(protocols=pair, **options, **folders)
    assert tried == ["swift"] * 2 + ["poseidon"] * 2 + ["swift"] * 2
    # The interrupted batch comes first, although one of its candidates has ended.
    tune(protocols=pair, **options, **folders)
    assert tried[6:] == ["swift", *["poseidon"] * 2, *["swift"] * 2, *["poseidon"] * 2]


def test_parameters_without_effect_are_left_out():
    def idle(named=(), over=None, **more):
        settings = [f"{key}={value}" for key, value in more.items()]
        bench = Bench(SCENARIO, settings, over or {}, 1, False, None, False)
        return run._ineffective("poseidon", named, bench)

    assert idle()["q"] == 'without target = "power-rate" or "power-cwnd"'
    assert "p" not in idle() and "m" not in idle() and "c" in idle()
    ratio = idle(**{"transport.params.update": "ratio"})
    assert "m" in ratio and "c" not in ratio
    # Another searched parameter, or a condition, gives it an effect.
    assert "q" not in idle(named=["q", "target"]) and "q" in idle(named=["q"])
    for table in ("transport", "protocols.poseidon"):
        over = {f"{table}.params.target": ["ln-rate", "power-rate"]}
        assert "q" not in idle(over=over) and "c" in idle(over=over)
        assert "q" in idle(over={f"{table}.params.target": ["ln-rate", "constant"]})


def test_searched_names_are_those_of_the_protocol():
    assert run._named("sird", ["sird.budget", "poseidon.p", "sird.budget"]) == ["budget"]


def test_a_search_names_parameters_without_effect(tmp_path):
    named = {"params": ["poseidon.q"], "ranges": {"poseidon.q": (-1, -0.1)}, "budget": 2}
    words = r"^poseidon.q has no effect in this scenario"
    with pytest.warns(tidegate.TidegateWarning, match=words):
        study = small(protocols=["poseidon"], **named)
    assert [axis.name for axis in study.axes["poseidon"]] == ["q"] and not study.left_out
    study = small(tmp_path / "all", protocols=["poseidon"], params=None, budget=2)
    assert {"aimd_increase", "constant_target"} <= study.left_out["poseidon"].keys()
    assert not study.left_out["poseidon"].keys() & {axis.name for axis in study.axes["poseidon"]}
    assert "Not searched, as they have no effect: parameters of poseidon: " in repr(study)
    saved = json.loads((tmp_path / "all" / "tune.json").read_text())
    assert saved["left_out"] == study.left_out
