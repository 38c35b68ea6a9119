import fcntl
import json
import math
import shutil
import statistics
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

import tidegate
from tidegate._tune import answer, files, goals, space
from tidegate._tune.search import PRUNED_FROM, Bench, Search, storage

pytest.importorskip("optuna")
pytest.importorskip("scipy")

SCENARIO = {
    "name": "two hosts",
    "duration": "200us",
    "warmup": "50us",
    "drain": "1ms",
    "fabric": {"kind": "star", "hosts": 3},
    "transport": {"protocol": "swift"},
    "traffic": [
        {"kind": "poisson", "label": "small", "sizes": "20KB", "load": 0.6},
        {"kind": "poisson", "label": "large", "sizes": "50KB", "load": 0.1},
    ],
}


OTHER = {
    "swift": {"base_target": "31us", "fs_range": "87us"},
    "poseidon": {"p": "43us", "k": "3us"},
}
"""Parameters that are no defaults."""


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


def test_lower_bounds_are_no_values(tmp_path):
    # Less credit than a packet needs leaves messages unfinished.
    starved = {**SCENARIO, "drain": "200us", "traffic": [{**SCENARIO["traffic"][0], "load": 0.9}]}
    study = tidegate.tune(
        starved,
        "sird",
        "min fct_mean of small",
        params=["sird.budget"],
        ranges={"sird.budget": ("0.01BDP", "1.5BDP")},
        budget=6,
        final_seeds=2,
        cache=tmp_path,
    )
    bounds = [one for one in study.candidates if one.state == "lower bound"]
    assert bounds and all(one.numbers["budget"] < 1.0 for one in bounds)


def test_a_search_without_values_is_reported(tmp_path):
    # The last messages never finish. The defaults have no better state than other candidates.
    cut = {**SCENARIO, "drain": "0us", "traffic": [{**SCENARIO["traffic"][0], "load": 0.9}]}
    params = ["sird.budget"]
    study = small(given=cut, protocols=["sird"], params=params, budget=4, cache=tmp_path)
    assert {one.state for one in study.candidates} == {"lower bound"}
    assert all(one.objectives and "unfinished" in one.why for one in study.candidates)
    text = repr(study)
    assert "sird: of 4 candidates, 4 have only a lower bound and 0 failed" in text
    why = study.why_default(study.best)
    assert why.startswith("no candidate could be compared with them: increase duration or drain")
    assert "No protocol has a complete value on these seeds: increase duration or drain" in text
    assert "Best:" not in text


def search(out=None, **more):
    return tidegate.tune(
        SCENARIO,
        ["swift", "poseidon"],
        "min slowdown_p99 of small",
        subject_to="goodput of small >= 0.5 best",
        set={"duration": "400us", "traffic.1.load": 0.35},
        budget=24,
        params=["swift.base_target", "swift.fs_range", "poseidon.p", "poseidon.k"],
        final_seeds=3,
        out=out,
        **more,
    )


def test_a_search_answers_on_other_seeds_and_continues(tmp_path):
    cache = tmp_path / "cache"
    out = tmp_path / "out"
    study = search(out, cache=cache)
    assert {one.protocol for one in study.protocols} == {"swift", "poseidon"}
    assert len(study.candidates) == 24 and not set(study.seeds) & set(study.report_seeds)
    for one in study.protocols:
        assert set(one.importance) == set(one.values)
        assert one.curves and all(len(points) > 2 for points in one.curves.values())
    written = json.loads((out / "tune.json").read_text())
    assert written["protocols"][0]["protocol"] == study.best.protocol
    assert (out / "trials.csv").read_text().count("\n") == 25
    page = (out / "tune.html").read_text()
    # Each figure has white paper and black ink, and their colours on a dark background.
    assert page.count("<svg") == page.count('[style*="fill: #ffffff"]{fill:#16181c!important}') > 0
    # The scenario runs as it is, and with the same outcome as the candidate.
    run = tidegate.run(out / f"{study.best.protocol}.toml", seed=study.report_seeds[0])
    p99 = run.summary.fct["small"].slowdown.p99
    assert p99 == pytest.approx(study.best.by_seed[study.best.is_improved][0])
    with pytest.raises(tidegate.UsageError, match="already holds the results"):
        search(out, cache=cache)
    # Without its result, the search continues where it ended: no candidate is added.
    (out / "tune.json").unlink()
    again = search(out, cache=cache)
    assert [one.values for one in again.candidates] == [one.values for one in study.candidates]
    (out / "tune.json").unlink()
    with pytest.raises(tidegate.UsageError, match="other settings"):
        search(out, cache=cache, seeds=3)


def test_objectives_have_a_front_on_other_seeds(tmp_path, monkeypatch):
    # The load makes parameters matter: equal values are one point.
    large = {**SCENARIO["traffic"][1], "load": 0.35}
    busy = {**SCENARIO, "duration": "400us", "traffic": [SCENARIO["traffic"][0], large]}

    def tune(out, **more):
        return tidegate.tune(
            busy,
            "poseidon",
            ["min slowdown_p99 of small", "min fct_mean of large"],
            budget=8,
            params="poseidon.p",
            final_seeds=2,
            cache=tmp_path / "cache",
            out=tmp_path / out,
            **more,
        )

    study = tune("whole")
    assert len(study.front) > 1
    assert study.units == ("", "us")
    tried = {one.number: one.objectives for one in study.candidates}
    for one in study.front:
        assert list(one.searched) == tried[one.number]
        assert not any(
            other[0] < one.searched[0] and other[1] < one.searched[1] for other in tried.values()
        )
        # The values are those of the reported seeds, which the search did not use.
        runs = [
            tidegate.run(
                busy,
                seed=seed,
                set={"transport.protocol": "poseidon", "transport.params.p": one.values["p"]},
            ).summary
            for seed in study.report_seeds
        ]
        p99 = statistics.fmean(run.fct["small"].slowdown.p99 for run in runs)
        assert one.measured[0].mean == pytest.approx(p99) != pytest.approx(one.searched[0])
        assert all(interval.half_width is not None for interval in one.measured)
        assert str(one.measured[0]) in repr(study)
        own = tuple(it.mean for it in one.measured)
        beaten = any(
            pair != own and pair[0] <= own[0] and pair[1] <= own[1]
            for pair in (tuple(it.mean for it in other.measured) for other in study.front)
        )
        assert one.holds == (not beaten)
    # The scenario of each point runs as it is.
    for at, one in enumerate(study.front, 1):
        path = tmp_path / "whole" / f"front-{at}.toml"
        assert one.name == path.stem and f"{path.name}  poseidon" in repr(study)
        seeds = study.report_seeds
        runs = [tidegate.run(path, seed=seed).summary.fct["small"] for seed in seeds]
        p99 = statistics.fmean(run.slowdown.p99 for run in runs)
        assert p99 == pytest.approx(one.measured[0].mean)
        assert f"# min slowdown_p99 of small: {one.measured[0]}, on seeds that" in path.read_text()
    written = json.loads((tmp_path / "whole" / "tune.json").read_text())
    assert [one["measured"][0]["mean"] for one in written["front"]] == [
        one.measured[0].mean for one in study.front
    ]
    assert "search seeds" not in repr(study)
    chosen = range(answer.SELECTION_FROM, answer.SELECTION_FROM + len(study.report_seeds))
    assert not {*chosen, *study.seeds} & {*study.report_seeds} and not {*chosen} & {*study.seeds}
    page = (tmp_path / "whole" / "tune.html").read_text()
    assert "candidates of the Pareto front on 2 seeds that the search did not use" in page
    assert all(f"{one.name}.toml" in page for one in study.front)
    # Points beyond a limit are only searched, and are named so.
    monkeypatch.setattr(answer, "FRONT", 2)
    capped = tune("capped")
    measured = [bool(one.measured) for one in capped.front]
    assert measured == [True, *[False] * (len(study.front) - 2), True]
    assert repr(capped).count("search seeds") == measured.count(False) > 0
    assert all(one.holds is None for one in capped.front if not one.measured)
    # Points without values on the reported seeds have scenarios, too; those of an earlier search
    # are removed.
    names = sorted(f"front-{at}.toml" for at in range(1, len(study.front) + 1))
    assert sorted(one.name for one in (tmp_path / "capped").glob("front-*")) == names
    for name in names:
        (tmp_path / "capped" / name).rename(tmp_path / "capped" / name.replace("-", "-9"))
    tune("capped", force=True)
    assert sorted(one.name for one in (tmp_path / "capped").glob("front-*")) == names


def test_the_scenario_holds_the_values_of_the_table(tmp_path):
    study = search(tmp_path / "out", cache=tmp_path / "cache")
    bench = Bench(SCENARIO, [], {}, None, tmp_path / "cache", None, False)
    for is_improved in (False, True):
        answers = [
            replace(one, is_improved=is_improved, values={**one.values, **OTHER[one.protocol]})
            for one in study.protocols
        ]
        files.write_study(tmp_path, replace(study, protocols=tuple(answers)), bench)
        for one in answers:
            path = tmp_path / f"{one.protocol}.toml"
            params = tidegate.load(path).resolved["transport"]["params"]
            catalog = {it.name: it for it in tidegate.protocols()}[one.protocol]
            default = {it.name: it.default for it in catalog.parameters}
            for name, other in OTHER[one.protocol].items():
                assert params[name] == (other if is_improved else default[name])
            assert ("with its defaults" in path.read_text()) != is_improved


def test_a_scenario_with_files_runs_as_it_is(tmp_path):
    given, out = tmp_path / "given", tmp_path / "tuned"
    (given / "sizes").mkdir(parents=True)
    (given / "sizes" / "small.csv").write_text("size_bytes,cdf\n20000,1\n")
    (given / "large.csv").write_text("size_bytes,cdf\n50000,1\n")
    named = ("sizes/small.csv", str(given / "large.csv"))
    traffic = [{**one, "sizes": name} for one, name in zip(SCENARIO["traffic"], named, strict=True)]
    path = given / "mine.toml"
    path.write_text(tidegate._native.toml_document(json.dumps({**SCENARIO, "traffic": traffic})))
    options = {"params": ["swift.base_target"], "budget": 2, "final_seeds": 2, "threads": 1}
    goal = "min slowdown_p99 of small"
    tidegate.tune(path, "swift", goal, cache=tmp_path / "cache", out=out, **options)
    shutil.rmtree(given)
    run = tidegate.run(out.rename(tmp_path / "elsewhere") / "swift.toml")
    assert len(run.flows) > 0
    assert not list((tmp_path / "elsewhere").rglob("*.partial"))


def test_equal_values_have_no_importance(tmp_path):
    study = tidegate.tune(
        SCENARIO, "swift", "min configured of small", budget=12, final_seeds=2, cache=tmp_path
    )
    assert len({one.objectives[0] for one in study.candidates}) == 1
    assert study.best.importance == {}
    assert "swift: no parameter changed the objective." in repr(study)


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


def test_a_folder_belongs_to_one_search(tmp_path):
    out, cache = tmp_path / "out", tmp_path / "cache"
    options = {"protocols": ["swift"], "params": ["swift.base_target"], "budget": 2}
    small(out, cache=cache, **options)
    before = json.loads((out / "tune.json").read_text())
    assert before["protocols"][0]["protocol"] == "swift"
    again = {**options, "protocols": ["poseidon"], "params": ["poseidon.p"]}
    small(out, cache=cache, force=True, **again)
    assert (out / "poseidon.toml").exists() and not (out / "swift.toml").exists()
    other = tmp_path / "mine"
    other.mkdir()
    (other / "swift.toml").write_text("mine")
    for force in (False, True):
        with pytest.raises(tidegate.UsageError, match="files of something else"):
            small(other, cache=cache, force=force, **options)
    assert (other / "swift.toml").read_text() == "mine"
    # A search that opened the file before it was locked excludes others as well.
    with (out / files.LOCK).open("w") as opened:
        with files.locked(out), pytest.raises(tidegate.UsageError, match="another search"):
            small(out, cache=cache, force=True, **options)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(tidegate.UsageError, match="another search"):
            small(out, cache=cache, force=True, **options)
    # A refused search makes no runs.
    with pytest.raises(tidegate.UsageError, match="already holds the results"):
        small(out, cache=tmp_path / "unused", **again)
    assert not (tmp_path / "unused").exists()
    # A changed scenario is no continuation.
    (out / "tune.json").unlink()
    with pytest.raises(tidegate.UsageError, match="another state of the scenario"):
        small(out, {**SCENARIO, "duration": "190us"}, cache=cache, **again)
    log = out / "search.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"{cut\n", *lines[2:]]))
    with pytest.raises(tidegate.OutputError, match=r"search.log: line 3 is damaged: add --force"):
        small(out, cache=cache, **again)
    # An interruption may leave an incomplete last line.
    log.write_bytes(b"".join(lines)[:-5])
    assert [one.number for one in small(out, cache=cache, **again).candidates] == [0, 1]


def test_other_settings_are_no_continuation(tmp_path):
    def tune(objective="min slowdown_p99 of small", **more):
        options = {"params": ["swift.base_target"], "budget": 2, "final_seeds": 2, "threads": 1}
        options.update(out=tmp_path / "out", cache=tmp_path / "cache", **more)
        return tidegate.tune(SCENARIO, "swift", objective, **options)

    tune()
    (tmp_path / "out" / "tune.json").unlink()
    for more in [
        {"over": {"traffic.0.load": [0.5]}},
        {"search_seed": 2},
        {"objective": "max slowdown_p99 of small"},
        {"subject_to": "drops <= 1e9"},
        {"seeds": 1},
        {"set": {"traffic.1.load": 0.2}},
        {"ranges": {"swift.base_target": ("20us", "40us")}},
        {"short_runs": 2},
    ]:
        with pytest.raises(tidegate.UsageError, match="other settings"):
            tune(**more)
    assert len(tune().candidates) == 2


def test_force_removes_the_files_of_a_search(tmp_path):
    settings, own = {"protocols": ["swift"]}, tmp_path / "other.txt"
    files.begin(tmp_path, settings, force=False)
    (tmp_path / files.FILES).mkdir()
    old = ["tune.json", "search.log", "trials.csv", "tune.html", "swift.toml", "front-1.toml"]
    for name in [*old, f"{files.FILES}/sizes.csv", own.name]:
        (tmp_path / name).touch()
    files.begin(tmp_path, settings, force=True)
    assert {one.name for one in tmp_path.iterdir()} == {files.SETTINGS, own.name}


def test_an_unusable_folder_is_explained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(tidegate.UsageError, match="file is a file, expected a folder"):
        files.check(tmp_path / "file", {}, force=False)
    # A search was killed while it wrote its settings.
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / f".{files.SETTINGS}.partial").touch()
    files.check(tmp_path / "killed", {}, force=False)
    (tmp_path / files.LOCK).mkdir()
    words = "is a folder, expected the search's lock file"
    with pytest.raises(tidegate.OutputError, match=words), files.locked(tmp_path):
        pass


def small(out=None, given=SCENARIO, protocols=("swift", "poseidon"), **more):
    options = {
        "budget": 12,
        "params": ["swift.base_target", "poseidon.p"],
        "final_seeds": 2,
        "threads": 2,
        **more,
    }
    goal = "min slowdown_p99 of small"
    return tidegate.tune(given, list(protocols), goal, out=out, **options)


def test_only_recommended_parameters_warn(tmp_path):
    # Packets take too long on these links for the targets of both.
    slow = {**SCENARIO["fabric"], "host_link": {"rate": "2Gbps"}}
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        study = small(given={**SCENARIO, "fabric": slow}, cache=tmp_path, out=tmp_path / "out")
    texts = [str(one.message) for one in raised if one.category is tidegate.TidegateWarning]
    assert texts == list(study.warnings)
    assert sorted(text.partition(":")[0] for text in texts) == ["poseidon", "swift"]
    assert all(one.filename == __file__ for one in raised if one.message.args[0] in texts)


def trials(study):
    return [(one.protocol, one.number, one.values, one.objectives) for one in study.candidates]


@pytest.mark.parametrize("ends_in", [1, 2, 5])
def test_interruptions_keep_the_candidates(tmp_path, monkeypatch, ends_in):
    whole = small(cache=tmp_path / "cache")
    measured, left = Bench.measured, [ends_in]

    def interrupted(*given, **more):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return measured(*given, **more)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Bench, "measured", interrupted)
        with pytest.raises(KeyboardInterrupt):
            small(out, cache=tmp_path / "cache")
    assert not (out / "tune.json").exists()
    again = small(out, cache=tmp_path / "cache")
    assert trials(again) == trials(whole)
    assert [one.tuned for one in again.protocols] == [one.tuned for one in whole.protocols]


def test_a_continued_search_knows_the_best_values(tmp_path, monkeypatch):
    batch, best = Search.batch, []

    def begun(search, *given):
        best.append(dict(search.best))
        if len(best) == 3:
            raise KeyboardInterrupt
        batch(search, *given)

    monkeypatch.setattr(Search, "batch", begun)
    bound = "goodput of small >= 0.9 best"
    options = {"subject_to": bound, "cache": tmp_path / "cache", "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        small(**options)
    small(**options)
    assert best[2] == best[3] and best[3].keys() == {bound}


@pytest.mark.parametrize(
    ("key", "values"),
    [("traffic.0.load", [0.3, 0.6]), ("faults.failure", ["none", "tor0-spine0"])],
)
def test_every_condition_counts(tmp_path, key, values):
    link = {"rate": "50Gbps"}
    fabric = {"kind": "leaf-spine", "racks": 2, "hosts_per_rack": 2, "spines": 2}
    given = {**SCENARIO, "fabric": {**fabric, "fabric_link": link}}
    study = small(given=given, cache=tmp_path, budget=4, over={key: values})
    first = next(one for one in study.candidates if (one.protocol, one.number) == ("swift", 0))
    values = [
        tidegate.run(given, seed=seed, set={key: value}).summary.fct["small"].slowdown.p99
        for seed in study.seeds
        for value in values
    ]
    assert first.objectives[0] == pytest.approx(statistics.fmean(values))
    assert max(values) > 1.05 * min(values)


def test_a_cluster_makes_the_runs(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    from tidegate import _cluster

    fill, made = _cluster.fill, []
    monkeypatch.setattr(_cluster, "fill", lambda *given: (made.append(given), fill(*given)))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = small(cache=tmp_path / "there", budget=4, client=client)
    # The batches have a candidate for each thread of the cluster.
    here = small(cache=tmp_path / "here", budget=4, threads=4)
    assert made and trials(there) == trials(here)
    assert [one.tuned for one in there.protocols] == [one.tuned for one in here.protocols]


def test_short_runs_end_bad_candidates(tmp_path):
    def candidates(**more):
        study = tidegate.tune(
            SCENARIO,
            "swift",
            "min fct_mean of small",
            budget=24,
            params=["swift.base_target", "swift.fs_range"],
            set={"duration": "650us"},
            final_seeds=2,
            threads=2,
            cache=tmp_path,
            **more,
        )
        return study.candidates

    # With one seed, only short runs can end a candidate.
    assert {one.state for one in candidates(seeds=1)} == {"complete"}
    for seeds in (1, 2):
        found = candidates(seeds=seeds, short_runs=2)
        pruned = [one for one in found if one.state == "pruned"]
        assert pruned and all(one.number >= PRUNED_FROM for one in pruned)
    bench = Bench(SCENARIO, [], {}, None, tmp_path, None, False)
    assert bench.short(2) == ["duration=125.000000us"]


@pytest.mark.parametrize("text", ["min fct_p99", "max goodput"])
@pytest.mark.parametrize("short", [[], ["duration=1ms"]])
def test_candidates_beyond_the_median_end_early(text, short):
    goal = goals.objective(text)

    class Measured(Bench):
        """Runs in which the objective is the parameter."""

        def check(self, protocol, values):
            pass

        def measured(self, protocol, candidates, seeds, set=()):
            calls.append((tuple(seeds), tuple(set), [one["x"] for one in candidates]))
            return [[[metric(one["x"], len(seeds))]] for one in candidates]

    def metric(value, seeds):
        name = goal.of.metric
        return SimpleNamespace(
            label="", metric=name, min_bytes=None, is_lower_bound=False, values=[value] * seeds
        )

    calls, tried = [], []
    bench = Measured(SCENARIO, [], {}, 1, False, None, False)
    axes = [space.Axis("x", 1.0, 64.0, 8.0, "", whole=False)]
    search = Search(bench, "swift", axes, ([goal], []), [1, 2], short, storage(None), 1)
    for _ in range(60):
        calls.clear()
        complete = [one.objectives[0] for one in tried if one.state == "complete"]
        search.batch(1, 60)
        tried = search.candidates()
        (value,) = calls[0][2]
        is_worse = len(complete) >= PRUNED_FROM and goal.is_better(
            statistics.median(complete), value
        )
        assert tried[-1].state == ("pruned" if is_worse else "complete"), (value, complete)
        if is_worse:
            assert [call[:2] for call in calls] == [((1,), tuple(short))]
        else:
            assert calls[-1][:2] == ((1, 2), ())
    assert {one.state for one in tried} == {"complete", "pruned"}


def test_wrong_searches_are_refused(tmp_path):
    def tune(objective="min slowdown_p99 of small", **more):
        options = {"budget": 4, "params": ["swift.base_target"], "cache": tmp_path, **more}
        return tidegate.tune(SCENARIO, "swift", objective, **options)

    for objective, more, words in [
        ("min slowdown_p99", {}, "several labels have it: slowdown_p99 of large | small"),
        ("min speed", {}, "the runs lack it; they have .*drops"),
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
    for bound in ("speed >= 1", "fct_p99 of other <= 1"):
        with pytest.raises(tidegate.UsageError, match="lack it"):
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
        ({"ranges": {"swift.beta": (2, 1)}}, "--range: swift.beta: ", "found 2..1, expected a"),
    ]:
        with pytest.raises((tidegate.ScenarioError, tidegate.UsageError)) as why:
            tune(**more)
        assert str(why.value).startswith(option) and words in str(why.value)
    # A value of `--set` is the default of the search.
    default = tune(set={"transport.params.base_target": "30us"}).best.defaults
    assert default == {"base_target": "30us"}


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
