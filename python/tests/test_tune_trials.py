"""Trials: interruptions, conditions, clusters, and early ends."""

import statistics
from types import SimpleNamespace

import pytest

import tidegate
from tidegate._tune import goals, space
from tidegate._tune.search import PRUNED_FROM, Bench, Search, storage
from tuning import SCENARIO, small, trials

pytest.importorskip("optuna")
pytest.importorskip("scipy")


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
