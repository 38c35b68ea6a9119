"""The function `tidegate.tune`."""

from __future__ import annotations

import itertools
import json
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any

from tidegate._arguments import (
    Changes,
    Path,
    Scenario,
    changes,
    how,
    plain,
    scenario,
    texts,
    whole,
)
from tidegate._cluster import slots
from tidegate._facade import load
from tidegate._facade import protocols as catalog
from tidegate._progress import warn, without_warnings
from tidegate._tune import files, goals
from tidegate._tune.answer import answered
from tidegate._tune.search import Bench, Search, lacking, missing_packages, planned, storage
from tidegate._tune.space import axes, magnitude
from tidegate._tune.study import Study
from tidegate.errors import OutputError, ScenarioError, UsageError
from tidegate.results import Plan

if TYPE_CHECKING:
    from distributed import Client


def _texts(option: str, given: str | Iterable[str] | None) -> list[str]:
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    return texts(option, given, "a text, or a list of texts")


def _listed(option: str, given: str | Iterable[str] | None) -> list[str]:
    """Return names from a list, or from a text with commas."""
    return [name.strip() for text in _texts(option, given) for name in text.split(",")]


def _check_once(option: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option}: {twice} occurs twice")


def _check_names(names: Sequence[str], params: Sequence[str], ranges: Iterable[str]) -> None:
    """Raise an error if a name occurs twice, or a parameter is of none of the protocols."""
    _check_once("--protocols", names)
    _check_once("--params", params)
    for option, given in (("--params", params), ("--range", ranges)):
        for name in given:
            if name.partition(".")[0] not in names:
                raise UsageError(
                    f"{option}: found {name!r}, expected PROTOCOL.PARAMETER with one of "
                    f"{', '.join(names)}"
                )


def _ranges(given: Any) -> dict[str, tuple[Any, Any]]:
    expected = (
        'a mapping of parameters to pairs of values, such as {"poseidon.p": ("10us", "80us")}'
    )
    found = {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise UsageError(f"--range: found {given!r}, expected {expected}")
    for key, pair in found.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"--range: {key}: found {pair!r}, expected a pair of values")
    return dict(found)


def _over(given: Mapping[str, Iterable[Any]] | None) -> dict[str, list[Any]]:
    found = {}
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"--over: found {given!r}, expected a mapping of keys to lists of values")
    for key, values in (given or {}).items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UsageError(f"--over: {key}: found {values!r}, expected a list of values")
        found[key] = listed = list(values)
        if not listed:
            raise UsageError(f"--over: {key}: found no value, expected at least one")
        seen: dict[Any, Any] = {}
        for one in listed:
            of = magnitude(one) or str(one)  # Equal values may have different units.
            if of in seen:
                raise UsageError(
                    f"--over: {key}: found {seen[of]} and {one}, expected different values"
                )
            seen[of] = one
        several = next((one for one in listed if str(one).startswith("each-")), None)
        if several is not None:
            raise UsageError(f"--over: {key}: found {several}, expected failures by name")
        try:
            plain(listed, key)
        except ScenarioError as why:
            raise UsageError(str(why).replace("scenario:", "--over:", 1)) from None
    return found


def _named(protocol: str, names: Iterable[str]) -> list[str]:
    """Return the parameters of a protocol among names such as `poseidon.p`, each once."""
    pairs = (name.partition(".") for name in names)
    return list(dict.fromkeys(one for of, _, one in pairs if of == protocol))


@without_warnings()
def _ineffective(protocol: str, named: Sequence[str], bench: Bench) -> dict[str, str]:
    """Return the parameters without effect for all candidates and conditions, with the reason."""
    conditions = itertools.product(*bench.over.values())
    each = (changes(dict(zip(bench.over, values, strict=True))) for values in conditions)
    # The condition may set a parameter, so it comes after the protocol.
    plans = (load(bench.given, set=[*bench.changes(protocol, {}), *own]) for own in each)
    first, *others = (
        {one.parameter: one.reason for one in plan.ineffective if one.depends_on not in named}
        for plan in plans
    )
    return {name: why for name, why in first.items() if all(name in other for other in others)}


@contextmanager
def _options(protocol: str) -> Iterator[None]:
    """Name the option of protocols, instead of the override of its runs, in errors."""
    try:
        yield
    except ScenarioError as why:
        text = str(why).replace(f"--set transport.protocol={protocol}", "--protocols")
        raise ScenarioError(text) from None


def _check_short(bench: Bench, protocol: str, short: Sequence[str]) -> None:
    """Raise an error if the scenario is not valid in short runs."""
    try:
        with _options(protocol):
            replace(bench, set=[*bench.set, *short]).check(protocol, {})
    except ScenarioError as why:
        raise ScenarioError(f"--short-runs: {why}") from None


def _plan(bench: Bench, name: str) -> Plan:
    """Return the plan of a protocol with its defaults, which every condition must permit."""
    with _options(name):
        plan = planned(bench, name, {})
        if bench.over:
            bench.check(name, {})
    return plan


@without_warnings()
def _supported(bench: Bench, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the protocols that can run the scenario, and warnings that name the others."""
    load(bench.given, set=bench.set)  # An invalid scenario is an error.
    found, refused = [], {}
    for name in names:
        try:
            _plan(bench, name)
        except ScenarioError as why:
            refused[name] = str(why).removeprefix("--protocols: ")
        else:
            found.append(name)
    if not found:  # An invalid condition is an error, too.
        raise ScenarioError(statistics.mode(refused.values()))
    return found, [f"skipped {name}: {text}" for name, text in refused.items()]


def tune(
    given: Scenario,
    protocols: str | Iterable[str],
    objective: str | Iterable[str],
    *,
    subject_to: str | Iterable[str] | None = None,
    budget: int = 100,
    params: str | Iterable[str] | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    over: Mapping[str, Iterable[Any]] | None = None,
    set: Changes = None,
    seeds: int = 2,
    short_runs: int | None = None,
    final_seeds: int = 5,
    search_seed: int = 1,
    threads: int | None = None,
    out: Path | None = None,
    force: bool = False,
    cache: Path | bool = True,
    client: Client | bool | None = None,
    progress: bool | None = None,
) -> Study:
    """Search for the parameters of protocols that are best on a scenario, like `tidegate tune`.

    The protocols are names, or `"all"` for every protocol that can run the scenario.

    The objective is `"min METRIC"` or `"max METRIC"`, with `" of LABEL"` for one label; with
    several objectives, the study has a Pareto front. `subject_to` bounds metrics:
    `"goodput >= 0.95 best"` or `"drops <= 0"`.

    `budget` is the number of candidates of all protocols together; each protocol gets the same
    share. Each candidate runs with seeds 1 to `seeds`, under every combination of the values of
    `over`, whose mean counts. The finalists run with `final_seeds` other seeds to choose among
    them, and with as many again for the reported values.

    With `short_runs=8`, each candidate first runs for an eighth of the measured time, and ends
    there if it is worse than the median of the others.

    `params` (`"poseidon.p"`) selects parameters, and `ranges` (`{"poseidon.p": ("10us", "80us")}`)
    sets their ranges; by default, the protocol's own numeric parameters vary by a factor of 8
    around their defaults, except those that have no effect in the scenario (`left_out` of the
    study). A protocol without any takes part with its defaults. With `out`, an
    interrupted search is continued by the same call.
    """
    try:
        import optuna  # noqa: F401
        import scipy  # noqa: F401
    except ImportError:
        raise missing_packages() from None
    known = {one.name: one for one in catalog()}
    bench = Bench(given, changes(set), _over(over), threads, cache, client, progress)
    names = _listed("--protocols", protocols)
    is_all = names == ["all"]
    if is_all:
        names, refused = _supported(bench, known)
        warn(refused)
    elif "all" in names:
        raise UsageError("--protocols: `all` cannot be combined with other names")
    wanted = [goals.objective(text) for text in _texts("--objective", objective)]
    bounds = [goals.constraint(text) for text in _texts("--subject-to", subject_to)]
    goals.check_metrics("--objective", (one.of for one in wanted))
    goals.check_metrics("--subject-to", (one.of for one in bounds))
    if not names or not wanted:
        missing = "--protocols" if not names else "--objective"
        raise UsageError(f"{missing}: found none, expected at least one")
    budget = whole("--budget", budget, 1, 1_000_000)
    seeds = whole("--seeds", seeds, 1, 1000)
    searched = list(range(1, seeds + 1))
    if short_runs is not None:
        short_runs = whole("--short-runs", short_runs, 2, 1000)
        if len(wanted) > 1:
            raise UsageError("--short-runs: needs a single objective")
    final_seeds = whole("--final-seeds", final_seeds, 2, 1000)
    search_seed = whole("--search-seed", search_seed, 0, 2**32 - 1)
    (threads, _), *_ = how(threads, out, force)
    selected = None if params is None else _listed("--params", params)
    ranged = _ranges(ranges)
    _check_names(names, selected or [], ranged)
    short = [] if short_runs is None else bench.short(short_runs)
    found, hashes, left_out = {}, {}, {}
    for name in names:
        plan = _plan(bench, name)
        hashes[name] = plan.hash
        if short:
            _check_short(bench, name, short)
        present = plan.resolved["transport"]["params"]
        own = axes(known[name], known.values(), selected, ranged, present)
        named = _named(name, [*(selected or ()), *ranged])
        idle = _ineffective(name, named, bench)
        for one in named:
            if one in idle:
                warn([f"{name}.{one} has no effect in this scenario {idle[one]}"])
        found[name] = [axis for axis in own if axis.name in named or axis.name not in idle]
        omitted = {axis.name: idle[axis.name] for axis in own if axis not in found[name]}
        if omitted:
            left_out[name] = omitted
    fixed = sum(not own for own in found.values())
    least = 2 * len(names) - fixed
    if budget < least:
        raise UsageError(
            f"--budget: found {budget}, expected at least {least}: two candidates for each of "
            f"{len(names) - fixed} protocols with parameters to search, one for each of {fixed} "
            "without"
        )
    title = plan.name
    for own in found.values():
        both = next((one.name for one in own if f"transport.params.{one.name}" in bench.over), None)
        if both is not None:
            raise UsageError(f"--over: transport.params.{both} is searched, too: choose one")
    settings = {
        "scenario": scenario(given),
        "hashes": hashes,
        "set": bench.set,
        "over": {key: [str(one) for one in values] for key, values in bench.over.items()},
        "protocols": names,
        "objectives": [str(one) for one in wanted],
        "constraints": [str(one) for one in bounds],
        "axes": {key: [repr(one) for one in own] for key, own in found.items()},
        "seeds": seeds,
        "short_runs": short_runs,
        "search_seed": search_seed,
    }
    if out is not None:
        files.check(Folder(os.fspath(out)), settings, force)
    without: dict[str, str] = {}
    for name, own in found.items():
        # Before the folder is created. The search finds these runs in the cache.
        defaults = {one.name: one.text(one.default) for one in own}
        (conditions,) = bench.measured(name, [defaults], searched)
        why = lacking([*wanted, *bounds], conditions, bench.over)
        if why is not None:
            without[name] = f"{name}: {why}"
            if not is_all or len(without) == len(names):
                raise UsageError(without[name])
        else:
            # A metric has several names, of which only the runs show which one it is.
            metrics = [one.of.among(conditions[0]) for one in wanted]
            texts = [str(goals.Quantity(it.metric, it.label or None)) for it in metrics if it]
            _check_once("--objective", texts)
    warn([f"skipped {why}" for why in without.values()])
    names = [name for name in names if name not in without]
    goal = (wanted, bounds)
    spread = (searched, final_seeds)

    def begun(kept: Any) -> list[Search]:
        return [
            Search(bench, name, found[name], goal, searched, short, kept, search_seed)
            for name in names
        ]

    def study(folder: Folder | None) -> Study:
        if folder is None:
            searches = begun(storage(None))
        else:
            files.mend(folder / files.JOURNAL)
            try:
                searches = begun(storage(str(folder / files.JOURNAL)))
            except Exception as why:  # Optuna has no error of its own for a damaged journal.
                raise OutputError(
                    f"--out: {folder / files.JOURNAL}: {why}: add --force to start again"
                ) from why
        best: dict[str, float] = {}
        for search in searches:
            search.best = best
            search.remember()
        share = max(2, budget // len(names))
        width = threads or slots(client) or os.cpu_count() or 1

        def limit(one: Search) -> int:
            return share if one.axes else 1

        while unfinished := [one for one in searches if one.done < limit(one)]:
            # The fewest batches: a search that was interrupted within one continues it.
            search = min(unfinished, key=lambda one: one.done // width)
            search.batch(width, limit(search))
            if folder is not None:
                files.write_so_far(folder, searches, wanted[0])
        found = answered(title, bench, searches, goal, spread)
        units = tuple(it.unit if it else "" for it in metrics)
        omitted = {name: left_out[name] for name in names if name in left_out}
        has_selection = selected is not None
        return replace(found, has_selection=has_selection, units=units, left_out=omitted)

    if out is None:
        answer = study(None)
    else:
        folder = Folder(os.fspath(out))
        with files.locked(folder):
            try:
                files.begin(folder, settings, force)
                try:
                    answer = replace(study(folder), folder=folder)
                    files.write_study(folder, answer, bench)
                except BaseException as why:
                    if files.is_interruption(why):
                        raise files.Interrupted from why
                    raise
            except (OSError, json.JSONDecodeError, UnicodeDecodeError) as why:
                # Files of the search that are damaged, or cannot be read or written.
                raise OutputError(
                    f"--out: {folder}: {why}: add --force to start again, or choose another folder"
                ) from why
    warn(answer.warnings)
    return answer
