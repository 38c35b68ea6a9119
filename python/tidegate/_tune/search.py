"""The search: candidates from Optuna, tried as cached runs of a sweep."""

from __future__ import annotations

import itertools
import math
import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from tidegate import _native
from tidegate._arguments import Path, Scenario, changes, scenario
from tidegate._facade import load
from tidegate._progress import without_warnings
from tidegate._sweeps import _request, sweep
from tidegate._tune.goals import Constraint, Objective, Quantity
from tidegate._tune.space import Axis
from tidegate.errors import RunError, ScenarioError, UsageError
from tidegate.results import Metric, Plan

if TYPE_CHECKING:
    from distributed import Client
    from optuna import Study as OptunaStudy
    from optuna.samplers import TPESampler
    from optuna.trial import FrozenTrial, Trial

PRUNED_FROM = 10
"""Completed trials of a protocol from which the search ends bad candidates early."""

LOWER_BOUND = "lower bound"
"""State of candidates that leave messages unfinished: they rank behind all complete ones."""

_PASSED = "passed"
"""Attribute of trials that have passed all rungs, and run in full."""


@dataclass(frozen=True)
class Rung:
    """Cheaper runs of a candidate, which end it if it is worse than the median there."""

    name: str
    step: int
    seeds: Sequence[int]
    set: Sequence[str] = ()


@dataclass(frozen=True)
class Bench:
    """The scenario, and how its runs are made."""

    given: Scenario
    set: list[str]
    over: Mapping[str, Sequence[Any]]
    threads: int | None
    cache: Path | bool
    client: Client | bool | None
    progress: bool | None

    def changes(self, protocol: str, values: Mapping[str, Any]) -> list[str]:
        """Return the overrides of a candidate."""
        own = changes({f"transport.params.{name}": value for name, value in values.items()})
        return [*self.set, f"transport.protocol={protocol}", *own]

    @without_warnings()
    def measured(
        self,
        protocol: str,
        candidates: Sequence[Mapping[str, Any]],
        seeds: Sequence[int],
        set: Sequence[str] = (),
    ) -> list[list[Sequence[Metric]]]:
        """Run candidates with the same parameters; return the metrics by candidate and condition.

        A condition is a combination of the values of `over`. `set` overrides further keys.
        """
        texts = [tuple(str(value) for value in one.values()) for one in candidates]
        different = dict(zip(texts, candidates, strict=True))
        results = self._run(protocol, [*different.values()], seeds, set)
        found = dict(zip(different, results, strict=True))
        return [found[text] for text in texts]

    @without_warnings()
    def short(self, share: int) -> list[str]:
        """Return the overrides of runs that measure a share of the time."""
        varied = next((key for key in ("until", "warmup", "duration") if key in self.over), None)
        if varied is not None:
            raise UsageError(f"--short-runs: needs one length of all runs, without --over {varied}")
        plan = load(self.given, set=self.set).resolved
        if plan.get("until", "duration") != "duration":
            raise UsageError(
                '--short-runs: the scenario has until = "done", so its length is not the duration'
            )
        ends = (_native.magnitude(plan[key]) for key in ("warmup", "duration"))
        warmup, duration = (0.0 if one is None else one[0] for one in ends)
        return [f"duration={warmup + (duration - warmup) / share:.6f}us"]

    @without_warnings()
    def check(self, protocol: str, values: Mapping[str, Any]) -> None:
        """Raise an error if a candidate is no valid scenario under every condition.

        It names parameters and the option of conditions, instead of the option of a sweep.
        """
        together = self._refused(protocol, values, self.over)
        if together is None:
            return
        conditions = list(itertools.product(*self.over.values()))
        each = [
            {key: [one] for key, one in zip(self.over, condition, strict=True)}
            for condition in conditions
        ]
        refused = [
            (condition, why)
            for condition, over in zip(conditions, each, strict=True)
            if (why := self._refused(protocol, values, over))
        ]
        if not refused:
            raise ScenarioError(together)
        condition, why = refused[0]
        # Otherwise, every condition refuses the candidate.
        is_over = len(refused) < len(conditions) and "--over" not in why
        raise ScenarioError(f"{_under(self.over, condition)}{why}" if is_over else why)

    def _refused(
        self, protocol: str, values: Mapping[str, Any], over: Mapping[str, Sequence[Any]]
    ) -> str | None:
        """Return why a candidate is no valid scenario under conditions; `None` if it is valid."""
        vary, fixed = replace(self, over=over)._varied(protocol, [values])
        try:
            _native.missing_runs(
                _request(self.given, vary, (True, None, 1), fixed, 1), ((None, None), None)
            )
        except ScenarioError as why:
            text = str(why)
            for name in values:
                key = f"transport.params.{name}="
                text = text.replace(f"--vary {key}", key)
            return text.replace("--vary", "--over")
        return None

    def _varied(
        self, protocol: str, candidates: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, list[Any]], list[str]]:
        """Return the varied keys of a sweep over candidates and conditions, and its overrides."""
        conditions = itertools.product(*self.over.values())
        rows = list(itertools.product(candidates, conditions))
        vary = {
            f"transport.params.{name}": [one[name] for one, _ in rows] for name in candidates[0]
        }
        # Values of `--set` are the defaults, which candidates replace.
        fixed = [one for one in self.set if one.partition("=")[0].strip() not in vary]
        for i, key in enumerate(self.over):
            vary[key] = [condition[i] for _, condition in rows]
        if not vary:  # A sweep varies at least one key.
            return {"transport.protocol": [protocol]}, fixed
        return vary, [*fixed, f"transport.protocol={protocol}"]

    def _run(
        self,
        protocol: str,
        candidates: Sequence[Mapping[str, Any]],
        seeds: Sequence[int],
        set: Sequence[str],
    ) -> list[list[Sequence[Metric]]]:
        """Run different candidates."""
        vary, fixed = self._varied(protocol, candidates)
        done = sweep(
            self.given,
            vary,
            zip=True,
            set=[*fixed, *set],
            seeds=seeds,
            threads=self.threads,
            cache=self.cache,
            client=self.client,
            progress=self.progress,
        )
        points = [point.metrics for point in done.points]
        size = len(points) // len(candidates)
        return [list(points[i : i + size]) for i in range(0, len(points), size)]


def _under(over: Mapping[str, Sequence[Any]], condition: Sequence[Any]) -> str:
    """Return the text that begins errors of a condition."""
    named = (f"{key}={value}" for key, value in zip(over, condition, strict=True))
    return f"--over {', '.join(named)}: " if over else ""


def each_seed(of: Quantity, conditions: Sequence[Sequence[Metric]]) -> list[float | None]:
    """Return a quantity for each seed, as the mean over conditions; `None` where a run lacks it."""
    found = [of.among(metrics) for metrics in conditions]
    values = [[] if one is None else one.values for one in found]
    seeds = max((len(one) for one in values), default=0)
    each = ([one[i] if i < len(one) else None for one in values] for i in range(seeds))
    return [
        None if None in of_seed else statistics.fmean(one for one in of_seed if one is not None)
        for of_seed in each
    ]


def by_seed(of: Quantity, conditions: Sequence[Sequence[Metric]]) -> list[float] | None:
    """Return a quantity for each seed, as the mean over conditions; `None` if a run lacks it."""
    values = each_seed(of, conditions)
    return [one for one in values if one is not None] if values and None not in values else None


def lacking(
    goals: Iterable[Objective | Constraint],
    conditions: Sequence[Sequence[Metric]],
    over: Mapping[str, Sequence[Any]],
) -> str | None:
    """Explain which quantity runs lack, under which values of `over`; `None` if they have all."""
    for of in (one.of for one in goals):
        if by_seed(of, conditions) is not None:
            continue
        for values, metrics in zip(itertools.product(*over.values()), conditions, strict=True):
            under = _under(over, values)
            found = each_seed(of, [metrics])
            if not found:
                return under + of.explained(metrics)
            if None in found:
                seed = found.index(None) + 1  # The seeds of a search are 1, 2, …
                return (
                    f"{under}{of}: seed {seed} has no value: no message finished (increase "
                    "duration or drain), or its run failed"
                )
    return None


def is_open(goal: Objective | Constraint, conditions: Sequence[Sequence[Metric]]) -> bool:
    """Whether a quantity that has to be small is only a lower bound: messages are unfinished."""
    is_large = goal.maximise if isinstance(goal, Objective) else goal.at_least
    found = (goal.of.among(metrics) for metrics in conditions)
    return not is_large and any(one is not None and one.is_lower_bound for one in found)


def is_known(
    goals: tuple[Sequence[Objective], Sequence[Constraint]],
    conditions: Sequence[Sequence[Metric]],
) -> bool:
    """Whether runs have all quantities, and none of them is only a lower bound."""
    each: list[Objective | Constraint] = [*goals[0], *goals[1]]
    return not any(by_seed(one.of, conditions) is None or is_open(one, conditions) for one in each)


def bounded_means(
    constraints: Iterable[Constraint], conditions: Sequence[Sequence[Metric]]
) -> tuple[float, ...]:
    """Return the mean of each constraint's metric; NaN if a run lacks it.

    It is infinite, which violates any bound, if only a lower bound of it is known.
    """

    def mean(one: Constraint) -> float:
        values = by_seed(one.of, conditions)
        if values is None:
            return math.nan
        return math.inf if is_open(one, conditions) else statistics.fmean(values)

    return tuple(mean(one) for one in constraints)


@dataclass
class Candidate:
    """Parameters of a protocol, with what was measured."""

    protocol: str
    values: dict[str, int | float | str]
    numbers: dict[str, float]
    objectives: list[float] = field(default_factory=list)
    constraints: list[float] = field(default_factory=list)
    state: str = "complete"
    number: int = 0
    why: str = ""
    """Why it failed, or has only lower bounds."""


class Search:
    """A search over the parameters of one protocol."""

    def __init__(
        self,
        bench: Bench,
        protocol: str,
        axes: Sequence[Axis],
        goals: tuple[Sequence[Objective], Sequence[Constraint]],
        seeds: Sequence[int],
        short: Sequence[str],
        storage: Any,
        search_seed: int,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._bench, self.protocol, self.axes = bench, protocol, axes
        self._objectives, self._constraints = goals
        self._seeds = list(seeds)
        self._short = Rung("short", 1, self._seeds[:1], short)
        self._first = Rung("first", 2, self._seeds[:1])
        self.best: dict[str, float] = {}
        """The best value of each constraint with `best`, over all protocols; shared by them."""
        self._seed = search_seed
        way = optuna.study.StudyDirection
        directions = [way.MAXIMIZE if one.maximise else way.MINIMIZE for one in self._objectives]
        self.study: OptunaStudy = optuna.create_study(
            study_name=protocol,
            directions=directions,
            storage=storage,
            load_if_exists=True,
        )
        state = optuna.trial.TrialState
        for trial in self.study.get_trials(states=(state.RUNNING,)):
            if len(trial.params) < len(axes):
                # It is proposed again as a whole, by the same random numbers.
                self.study.tell(trial.number, state=state.FAIL)
        if not self._begun() and not self.study.get_trials(states=(state.WAITING,)):
            self.study.enqueue_trial({one.name: one.default for one in axes})

    def _sampler(self, number: int) -> TPESampler:
        """Return the sampler of a candidate.

        Each has random numbers of its own, so that an interrupted search proposes the same
        candidates when it continues.
        """
        import numpy as np
        import optuna

        seed = np.random.SeedSequence((self._seed, number)).generate_state(1)
        with warnings.catch_warnings():
            # Optuna 5 announces another function for constraints, which Optuna 4 lacks; Optuna 4
            # calls this one experimental.
            warnings.simplefilter("ignore")
            return optuna.samplers.TPESampler(
                seed=int(seed[0]),
                constant_liar=True,
                multivariate=True,
                constraints_func=self._violations,
            )

    def _violations(self, trial: FrozenTrial) -> list[float]:
        """Return the constraints of the sampler: trials have values, and meet the bounds."""
        return [math.inf if "why" in trial.user_attrs else 0.0, *self._excess(trial)]

    def _excess(self, trial: FrozenTrial) -> list[float]:
        measured = trial.user_attrs.get("constraints")
        if measured is None:
            return [math.inf] * len(self._constraints)
        pairs = zip(self._constraints, measured, strict=True)
        return [one.excess(value, self.best.get(str(one), value)) for one, value in pairs]

    def remember(self) -> None:
        """Take the best values of constraints from the trials of an interrupted search."""
        for trial in self._trials():
            if "why" not in trial.user_attrs:
                self._note(trial.user_attrs.get("constraints") or ())

    def _note(self, measured: Sequence[float]) -> None:
        """Note values of a candidate that has completed its messages."""
        for one, value in zip(self._constraints, measured, strict=False):
            best = self.best.get(str(one), value)
            self.best[str(one)] = max(best, value) if one.at_least else min(best, value)

    def _begun(self) -> list[FrozenTrial]:
        """Return the trials so far, without those that have to be proposed again."""
        from optuna.trial import TrialState

        states = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
        return self.study.get_trials(states=states)

    def _trials(self) -> list[FrozenTrial]:
        """Return the trials that have ended."""
        return [one for one in self._begun() if one.state.is_finished()]

    @property
    def done(self) -> int:
        """Position of the first trial that has not ended; those after it may have."""
        states = [one.state for one in self._begun()]
        return next((i for i, one in enumerate(states) if not one.is_finished()), len(states))

    def batch(self, width: int, share: int) -> None:
        """Try the next `width` candidates of `share`, or those that an interruption left of them.

        Batches begin at multiples of `width`: candidates of a batch do not know each other's
        results, with and without an interruption. An invalid candidate ends before the next one of
        its batch is proposed, which knows of it.
        """
        start = self.done // width * width
        asked: list[tuple[Trial, dict[str, Any]]] = []
        for number in range(start, min(start + width, share)):
            trial = self._trial(number)
            if trial is None:
                continue
            values = {one.name: one.text(self._suggested(trial, one)) for one in self.axes}
            try:
                self._bench.check(self.protocol, values)
            except ScenarioError as why:
                self._reject(trial, str(why))
                continue
            asked.append((trial, values))
        # Results of the batch change the median: no candidate passes a rung after them.
        passed = [one for one in asked if _PASSED in one[0].user_attrs]
        others = [one for one in asked if _PASSED not in one[0].user_attrs]
        for rung in self._rungs():
            if others:
                others = self._promising(others, rung)
        for trial, _ in others:
            trial.set_user_attr(_PASSED, True)
        asked = [*passed, *others]
        if not asked:
            return
        results = self._bench.measured(self.protocol, [values for _, values in asked], self._seeds)
        for (trial, _), conditions in zip(asked, results, strict=True):
            self._finish(trial, conditions)

    def _trial(self, number: int) -> Trial | None:
        """Return a new trial, or one that an interruption left; `None` if it has ended."""
        import optuna

        begun = self._begun()
        self.study.sampler = self._sampler(number)
        if number == len(begun):
            return self.study.ask()
        if begun[number].state.is_finished():
            return None
        return optuna.trial.Trial(self.study, begun[number]._trial_id)

    def _suggested(self, trial: Trial, axis: Axis) -> float:
        if axis.choices:
            return trial.suggest_categorical(axis.name, tuple(range(len(axis.choices))))
        if axis.whole:
            return trial.suggest_int(axis.name, round(axis.low), round(axis.high), log=axis.is_log)
        return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.is_log)

    def _rungs(self) -> Iterator[Rung]:
        """Yield what a candidate passes before it runs in full."""
        if len(self._objectives) > 1:
            return
        if self._short.set:
            yield self._short
        if len(self._seeds) > 1 and len(self._known(self._first)) >= PRUNED_FROM:
            yield self._first

    def _known(self, rung: Rung) -> list[float]:
        """Return the values at a rung of the complete trials that meet the constraints.

        Others may be better because they violate a constraint.
        """
        from optuna.trial import TrialState

        complete = self.study.get_trials(states=(TrialState.COMPLETE,))
        return [
            one.user_attrs[rung.name]
            for one in complete
            if rung.name in one.user_attrs
            and (not self._constraints or all(excess <= 0 for excess in self._excess(one)))
        ]

    def _promising(
        self, asked: list[tuple[Trial, dict[str, Any]]], rung: Rung
    ) -> list[tuple[Trial, dict[str, Any]]]:
        """Run candidates at a rung, and end those that are worse than the median there."""
        from optuna.trial import TrialState

        goal = self._objectives[0]
        known = self._known(rung)
        middle = statistics.median(known) if len(known) >= PRUNED_FROM else None
        results = self._bench.measured(
            self.protocol, [values for _, values in asked], rung.seeds, rung.set
        )
        kept = []
        for (trial, values), conditions in zip(asked, results, strict=True):
            found = None if is_open(goal, conditions) else by_seed(goal.of, conditions)
            if found is not None:
                trial.set_user_attr(rung.name, found[0])
            if found is not None and middle is not None and goal.is_better(middle, found[0]):
                self._report(trial, found[0], rung.step)
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                kept.append((trial, values))
        return kept

    def _report(self, trial: Trial, value: float, step: int) -> None:
        """Report a value, unless an interrupted search has: Optuna would warn."""
        every = self.study.get_trials(deepcopy=False)
        if step not in every[trial.number].intermediate_values:
            trial.report(value, step)

    def _reject(self, trial: Trial, why: str) -> None:
        """End a trial without comparable values.

        The sampler does not see failed trials, and would return to their region. It sees pruned
        ones, and avoids those that violate a constraint.
        """
        from optuna.trial import TrialState

        trial.set_user_attr("why", why)
        self.study.tell(trial, state=TrialState.PRUNED)

    def _finish(self, trial: Trial, conditions: Sequence[Sequence[Metric]]) -> None:
        goals: list[Objective | Constraint] = [*self._objectives, *self._constraints]
        why = lacking(goals, conditions, self._bench.over)
        if why is not None:
            self._reject(trial, why)
            return
        measured = [by_seed(one.of, conditions) for one in self._objectives]
        values = [statistics.fmean(one) for one in measured if one is not None]
        bounded = bounded_means(self._constraints, conditions)
        trial.set_user_attr("constraints", bounded)
        # Otherwise, the fewer messages a candidate completes, the better it would be.
        goal = next((one for one in goals if is_open(one, conditions)), None)
        if goal is not None:
            trial.set_user_attr("bounds", values)
            self._reject(trial, f"{goal.of}: a lower bound: messages are unfinished")
            return
        self._note(bounded)
        trial.set_user_attr(self._first.name, measured[0][0] if measured[0] else None)
        self.study.tell(trial, values)

    def candidates(self) -> list[Candidate]:
        """Return all trials that have ended."""
        found = []
        for number, trial in enumerate(self._trials()):
            numbers = {name: float(value) for name, value in trial.params.items()}
            values = {one.name: one.text(numbers[one.name]) for one in self.axes}
            bounds, why = (trial.user_attrs.get(key) for key in ("bounds", "why"))
            state = LOWER_BOUND if bounds else "fail" if why else trial.state.name.lower()
            found.append(
                Candidate(
                    protocol=self.protocol,
                    values=values,
                    numbers=numbers,
                    objectives=list(trial.values or bounds or ()),
                    constraints=self._excess(trial) if self._constraints else [],
                    state=state,
                    number=number,
                    why=why or "",
                )
            )
        return found

    def importance(self) -> dict[str, float]:
        """Return the share of each parameter in the variation of the first objective."""
        import optuna

        complete = self.study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        # Of equal values, the shares would be invented.
        is_flat = len({one.values[0] for one in complete}) < 2
        if is_flat or len(complete) < PRUNED_FROM or len(self.axes) < 2:
            return {}
        target = None
        if len(self._objectives) > 1:
            # PED-ANOVA of a target looks at its low values.
            sign = -1.0 if self._objectives[0].maximise else 1.0
            target = lambda trial: sign * trial.values[0]  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = optuna.importance.get_param_importances(
                self.study,
                evaluator=optuna.importance.PedAnovaImportanceEvaluator(),
                target=target,
            )
        return dict(found)


def feasible(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the complete candidates that meet all constraints."""
    return [
        one
        for one in candidates
        if one.state == "complete" and all(excess <= 0 for excess in one.constraints)
    ]


def storage(folder: str | None) -> Any:
    """Return the storage of studies: a file in a folder, or memory."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    if folder is None:
        return optuna.storages.InMemoryStorage()
    return optuna.storages.JournalStorage(JournalFileBackend(folder))


@without_warnings()
def planned(bench: Bench, protocol: str, values: Mapping[str, Any]) -> Plan:
    """Return the plan with a protocol and these parameters."""
    return load(bench.given, set=bench.changes(protocol, values))


def portable(
    bench: Bench, protocol: str, values: Mapping[str, Any], folder: str
) -> tuple[str, list[tuple[str, File]]]:
    """Return the scenario with a protocol and these parameters, as TOML, and its files.

    The scenario names its files by new names, which are in `folder` beside it.
    """
    own = changes(bench.changes(protocol, values))
    return _native.portable(scenario(bench.given), own, folder)


def missing_packages() -> RunError:
    """Return the error if the packages of the search are not installed."""
    return RunError("tune: needs Optuna and SciPy: pip install 'tidegate[tune]'")
