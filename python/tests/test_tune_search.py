"""The search of one protocol, over runs whose metrics are functions of its parameters."""

import json
import math
import statistics
import warnings
from types import SimpleNamespace

import pytest

import tidegate
from tidegate._tune import answer, files, goals, ranking, space
from tidegate._tune.search import PRUNED_FROM, Bench, Search, feasible
from tuning import SCENARIO

optuna = pytest.importorskip("optuna")

AXES = [space.Axis(name, 1.0, 64.0, 8.0, "", whole=False) for name in ("x", "y")]


class Fake(Bench):
    """Runs with these metrics: the names of metrics, and functions of a candidate and a seed."""

    def __init__(self, metrics, invalid=lambda one: False, unfinished=lambda one: False):
        super().__init__(SCENARIO, [], {}, 1, False, None, False)
        self.__dict__.update(metrics=metrics, invalid=invalid, unfinished=unfinished, calls=[])

    def check(self, protocol, values):
        if self.invalid(values):
            raise tidegate.ScenarioError("invalid")

    def measured(self, protocol, candidates, seeds, set=()):
        self.calls.append((len(candidates), tuple(seeds)))

        def metric(one, name, of):
            return SimpleNamespace(
                label="",
                metric=name,
                min_bytes=None,
                is_lower_bound="fct" in name and self.unfinished(one),
                values=[of(one, seed) for seed in seeds],
            )

        return [[[metric(one, *pair) for pair in self.metrics.items()]] for one in candidates]


def searched(bench, objectives, bounds=(), seeds=(1, 2), kept=None, short=()):
    """Return a search, and the storage that continues it."""
    wanted = [goals.objective(text) for text in objectives]
    constraints = [goals.constraint(text) for text in bounds]
    kept = kept or optuna.storages.InMemoryStorage()
    return Search(bench, "swift", AXES, (wanted, constraints), seeds, short, kept, 1), kept


def completed(search, share, width=4):
    while search.done < share:
        search.batch(width, share)
    return search.candidates()


def study(bench, objectives, bounds=(), seeds=(1, 2), budget=12):
    """Return the answer of a search."""
    search, _ = searched(bench, objectives, bounds, seeds)
    completed(search, budget)
    goal = (search._objectives, search._constraints)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "planned", lambda *_: SimpleNamespace(warnings=()))
        return answer.answered("fake", bench, [search], goal, (seeds, 2))


def test_an_interruption_at_any_call_changes_nothing(monkeypatch):
    metrics = {
        "fct_mean": lambda one, seed: abs(one["x"] - 20) + one["y"] + seed,
        "goodput": lambda one, seed: one["x"] + one["y"],
    }
    bench = Fake(metrics, lambda one: one["y"] > 50, lambda one: one["x"] < 3)
    goal = (bench, ["min fct_mean"], ["goodput >= 0.2 best"])
    calls, ends_in = [0], [0]

    def counted(called):
        def call(*given, **more):
            calls[0] += 1
            if calls[0] == ends_in[0]:
                raise KeyboardInterrupt
            return called(*given, **more)

        return call

    for of, name in [
        *[(Fake, "check"), (Fake, "measured"), (Search, "_finish"), (Search, "_suggested")],
        *[(optuna.Study, "ask"), (optuna.Study, "tell")],
    ]:
        monkeypatch.setattr(of, name, counted(getattr(of, name)))
    whole = completed(searched(*goal)[0], 30)
    assert {one.state for one in whole} >= {"complete", "pruned", "lower bound"}
    for at in range(1, calls[0] + 1, 9):
        calls[0], ends_in[0] = 0, at
        search, kept = searched(*goal)
        with pytest.raises(KeyboardInterrupt):
            completed(search, 30)
        ends_in[0] = calls[0] + 5
        search, _ = searched(*goal, kept=kept)
        search.remember()
        with pytest.raises(KeyboardInterrupt):
            completed(search, 30)
            raise KeyboardInterrupt
        search, _ = searched(*goal, kept=kept)
        search.remember()
        assert completed(search, 30) == whole, at


def test_half_a_batch_has_passed_its_rungs(monkeypatch):
    bench = Fake({"fct_mean": lambda one, seed: 1.0})
    search, kept = searched(bench, ["min fct_mean"])
    completed(search, 12)
    finish, ended = Search._finish, []

    def interrupted(*given):
        if len(ended) == 2:
            raise KeyboardInterrupt
        ended.append(finish(*given))

    bench.calls.clear()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Search, "_finish", interrupted)
        search.batch(4, 16)
    search, _ = searched(bench, ["min fct_mean"], kept=kept)
    search.batch(4, 16)
    assert search.done == 16
    assert bench.calls == [(4, (1,)), (4, (1, 2)), (2, (1, 2))]


def test_a_reported_value_is_not_reported_again(monkeypatch):
    bench = Fake({"fct_mean": lambda one, seed: one["x"]})
    search, kept = searched(bench, ["min fct_mean"])
    report = optuna.trial.Trial.report

    def interrupted(*given):
        report(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optuna.trial.Trial, "report", interrupted)
        completed(search, 60)
    (left,) = (one for one in search._begun() if one.intermediate_values)
    assert not left.state.is_finished()
    search, _ = searched(bench, ["min fct_mean"], kept=kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completed(search, left.number + 1)
    assert search._begun()[left.number].state.name == "PRUNED"


@pytest.mark.parametrize(("width", "share"), [(1, 30), (2, 30), (8, 30), (2, 18)])
def test_another_width_continues_a_search(monkeypatch, width, share):
    # Trials end out of order: invalid ones at once, and others at a rung.
    metrics = {"fct_mean": lambda one, seed: abs(one["x"] - 20) + one["y"] + seed}
    measured, left = Fake.measured, [0]

    def interrupted(*given, **more):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return measured(*given, **more)

    monkeypatch.setattr(Fake, "measured", interrupted)
    is_out_of_order = []
    for ends_in in range(1, 12):
        left[0] = ends_in
        bench = Fake(metrics, lambda one: one["y"] > 50)
        search, kept = searched(bench, ["min fct_mean"])
        with pytest.raises(KeyboardInterrupt):
            completed(search, 30)
        ended = [one.state.is_finished() for one in search._begun()]
        is_out_of_order.append(sorted(ended, reverse=True) != ended)
        again, _ = searched(bench, ["min fct_mean"], kept=kept)
        for _ in range(share):
            if again.done < share:
                again.batch(width, share)
        assert again.done >= share
        assert all(one.state.is_finished() for one in again._begun()[:share])
    assert any(is_out_of_order)


@pytest.mark.parametrize(("before", "width", "share"), [(12, 8, 16), (14, 4, 16)])
def test_new_candidates_of_a_batch_pass_the_rungs(before, width, share):
    # The batch begins among complete candidates: of another width, or of a smaller budget.
    bench = Fake({"fct_mean": lambda one, seed: 1.0})
    search, _ = searched(bench, ["min fct_mean"])
    completed(search, before)
    bench.calls.clear()
    completed(search, share, width)
    new = share - before
    assert bench.calls == [(new, (1,)), (new, (1, 2))]


@pytest.mark.parametrize("objectives", [["min fct_mean"], ["min fct_mean", "max goodput"]])
@pytest.mark.parametrize("wrong", ["invalid", "unfinished"])
def test_the_search_leaves_a_region_without_values(objectives, wrong):
    # The best complete values are at the border of a region that has none.
    metrics = {
        "fct_mean": lambda one, seed: one["x"] + one["y"] / 8,
        "goodput": lambda one, seed: one["y"],
    }
    bench = Fake(metrics, **{wrong: lambda one: one["x"] < 6.0})
    found = completed(searched(bench, objectives, seeds=(1,))[0], 60, width=1)
    state = {"invalid": "fail", "unfinished": "lower bound"}[wrong]
    assert {one.state for one in found} == {"complete", state}
    # If the sampler does not see them, they are 47 or more.
    assert sum(one.state == state for one in found) < 30


def test_a_lower_bound_meets_no_upper_bound():
    # The less a candidate finishes, the lower is what the finished messages took.
    metrics = {
        "fct_mean": lambda one, seed: one["x"],
        "goodput": lambda one, seed: 100 - one["x"],
    }
    for bound in ("fct_mean <= 10", "fct_mean <= 1.5 best"):
        bench = Fake(metrics, unfinished=lambda one: one["x"] < 4.0)
        search, _ = searched(bench, ["max goodput"], [bound])
        found = completed(search, 24)
        for one in found:
            is_open = one.values["x"] < 4.0
            assert (one.state == "lower bound") == is_open
            assert (one.constraints == [math.inf]) == is_open
        # Only complete values are the best.
        least = min(one.values["x"] for one in found if one.values["x"] >= 4.0)
        assert search.best[bound] == least and feasible(found)

    always = study(Fake(metrics, unfinished=lambda one: True), ["max goodput"], ["fct_mean <= 90"])
    assert not always.best.meets_constraints and "swift (violates)" in repr(always)
    assert "fct_mean <= 90: unknown for swift, as messages are unfinished; it" in repr(always)
    assert "unknown" not in repr(study(Fake(metrics), ["max goodput"], ["fct_mean <= 90"]))


def test_a_study_is_json():
    bench = Fake({"fct_mean": lambda one, seed: one["x"]}, lambda one: one["y"] > 50)
    found = study(bench, ["min fct_mean"], ["fct_mean <= 60"], budget=24)
    assert {one.state for one in found.candidates} == {"complete", "pruned", "fail"}

    def refuse(text):
        raise AssertionError(text)

    written = json.loads(files.content(found), parse_constant=refuse)
    failed = next(one for one in written["candidates"] if one["state"] == "fail")
    assert failed["constraints"] == [None]


def test_the_lock_of_a_killed_search_is_removed(tmp_path):
    journal = tmp_path / files.JOURNAL
    # Optuna's lock is a link to the journal, which dangles if the journal has a relative path.
    lock = tmp_path / f"{files.JOURNAL}.lock"
    lock.symlink_to(f"out/{files.JOURNAL}")
    files.mend(journal)
    assert not lock.is_symlink()
    of_optuna = optuna.storages.journal.JournalFileSymlinkLock(str(journal))
    assert of_optuna.acquire() and lock.is_symlink()


def is_reported(seed):
    return seed >= answer.REPORT_FROM


def test_the_table_and_the_front_have_the_same_bound():
    # On the reported seeds, only points of the front have the best goodput.
    metrics = {
        "fct_mean": lambda one, seed: one["x"],
        "marks": lambda one, seed: one["x"],
        "goodput": lambda one, seed: 50 if is_reported(seed) and one["x"] < 16 else 100,
    }
    found = study(Fake(metrics), ["min fct_mean", "max marks"], ["goodput >= 0.9 best"], budget=10)
    assert not found.best.meets_constraints
    assert {one.holds for one in found.front} == {False, True}
    for one in found.front:
        assert one.holds == (one.values["x"] >= 16)


def test_a_failed_point_of_the_front_does_not_hold():
    metrics = {
        "fct_mean": lambda one, seed: None if is_reported(seed) and one["x"] > 16 else one["x"],
        "marks": lambda one, seed: one["x"],
    }
    found = study(Fake(metrics), ["min fct_mean", "max marks"], budget=10)
    failed = [one for one in found.front if one.values["x"] > 16]
    assert failed
    for one in found.front:
        assert one.holds == (one not in failed)
        assert math.isnan(one.measured[0].mean) == (one in failed)
    assert repr(found).count("unseen, does not hold") == len(failed)
    assert "search seeds" not in repr(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pytest.importorskip("tidegate._tune.page").page(found)


def test_the_best_values_bound_the_search():
    metrics = {"fct_mean": lambda one, seed: one["x"], "goodput": lambda one, seed: one["y"]}
    bounds = ["goodput >= 0.9 best", "fct_mean <= 2 best"]
    search, kept = searched(Fake(metrics), ["min fct_mean"], bounds)
    found = completed(search, 8)
    best = {
        bounds[0]: max(one.values["y"] for one in found),
        bounds[1]: min(one.values["x"] for one in found),
    }
    assert search.best == best
    again, _ = searched(Fake(metrics), ["min fct_mean"], bounds, kept=kept)
    again.remember()
    assert again.best == best


def test_only_complete_candidates_set_the_best():
    # The less a candidate finishes, the more goodput it has.
    metrics = {"fct_mean": lambda one, seed: 9.0, "goodput": lambda one, seed: 100 - one["x"]}
    bench = Fake(metrics, unfinished=lambda one: one["x"] < 4.0)
    bound = "goodput >= 0.99 best"
    search, kept = searched(bench, ["min fct_mean"], [bound])
    found = completed(search, 24)
    complete = [100 - one.values["x"] for one in found if one.state == "complete"]
    assert {one.state for one in found} >= {"complete", "lower bound"}
    assert search.best == {bound: max(complete)} and feasible(found)
    again, _ = searched(bench, ["min fct_mean"], [bound], kept=kept)
    again.remember()
    assert again.best == search.best


def test_only_complete_answers_set_the_best():
    # Only on other seeds, the tuned parameters leave messages unfinished.
    metrics = {
        "fct_mean": lambda one, seed: one["x"] + seed % 10,
        "goodput": lambda one, seed: 100 - one["x"],
    }

    class Late(Fake):
        def measured(self, protocol, candidates, seeds, set=()):
            is_other = min(seeds) >= answer.SELECTION_FROM
            self.unfinished = lambda one: is_other and one["x"] < 8.0
            return super().measured(protocol, candidates, seeds, set)

    for wanted in (["min fct_mean"], ["max goodput", "min fct_mean"]):
        found = study(Late(metrics), wanted, ["goodput >= 0.99 best"])
        assert found.best.meets_constraints and found.best.recommended["x"] == 8.0


def test_a_lower_bound_is_not_chosen():
    # Only on the seeds that choose, the best candidates leave messages unfinished.
    class Chosen(Fake):
        def measured(self, protocol, candidates, seeds, set=()):
            is_chosen = answer.SELECTION_FROM <= min(seeds) < answer.REPORT_FROM
            self.unfinished = lambda one: is_chosen and one["x"] < 8.0
            return super().measured(protocol, candidates, seeds, set)

    found = study(Chosen({"fct_mean": lambda one, seed: one["x"]}), ["min fct_mean"])
    assert min(one.values["x"] for one in found.candidates) < 8.0 == found.best.values["x"]


def test_no_candidate_meets_the_constraints():
    metrics = {"fct_mean": lambda one, seed: seed, "marks": lambda one, seed: abs(one["x"] - 8)}
    found = study(Fake(metrics), ["min fct_mean"], ["marks <= 0"], budget=6)
    assert found.best.meets_constraints and not found.best.is_improved
    assert "with its defaults: no candidate met the constraints in the search." in repr(found)


def test_candidates_end_early_by_complete_values():
    metrics = {"fct_mean": lambda one, seed: one["x"], "goodput": lambda one, seed: one["x"]}
    # No region that the sampler could avoid.
    bench = Fake(metrics, unfinished=lambda one: round(one["x"] * 1000) % 3 == 0)
    search, _ = searched(bench, ["min fct_mean"], ["goodput >= 10"])
    tried = []
    for _ in range(40):
        allowed = [one.objectives[0] for one in feasible(tried)]
        search.batch(1, 40)
        tried = search.candidates()
        # Those that violate the bound have lower values, and would end others.
        value = tried[-1].values["x"]
        is_worse = len(allowed) >= PRUNED_FROM and statistics.median(allowed) < value
        # An unfinished candidate runs in full, to be counted as such.
        is_open = bench.unfinished(tried[-1].values)
        state = "lower bound" if is_open else "pruned" if is_worse else "complete"
        assert tried[-1].state == state
    assert {one.state for one in tried} == {"lower bound", "pruned", "complete"}
