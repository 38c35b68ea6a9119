"""Whole searches, and what they return."""

import json
import statistics
import warnings

import pytest

import tidegate
import tuning
from tidegate._tune import answer, front
from tuning import SCENARIO, search, small

pytest.importorskip("optuna")
pytest.importorskip("scipy")


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
    monkeypatch.setattr(front, "FRONT", 2)
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


def test_equal_values_have_no_importance(tmp_path):
    study = tidegate.tune(
        SCENARIO, "swift", "min configured of small", budget=12, final_seeds=2, cache=tmp_path
    )
    assert len({one.objectives[0] for one in study.candidates}) == 1
    assert study.best.importance == {}
    assert "swift: no parameter changed the objective." in repr(study)


def test_only_recommended_parameters_warn(tmp_path):
    # Packets take too long on these links for the targets of both.
    slow = {**SCENARIO["fabric"], "host_link": {"rate": "2Gbps"}}
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        study = small(given={**SCENARIO, "fabric": slow}, cache=tmp_path, out=tmp_path / "out")
    texts = [str(one.message) for one in raised if one.category is tidegate.TidegateWarning]
    assert texts == list(study.warnings)
    assert sorted(text.partition(":")[0] for text in texts) == ["poseidon", "swift"]
    assert all(one.filename == tuning.__file__ for one in raised if one.message.args[0] in texts)
