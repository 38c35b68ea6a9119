"""The function `tidegate.tune`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any

from tidegate._arguments import (
    Changes,
    Path,
    Scenario,
    changes,
    scenario,
    threading,
    whole,
)
from tidegate._facade import protocols as catalog
from tidegate._progress import warn
from tidegate._tune import files, goals
from tidegate._tune.answer import Study, answered
from tidegate._tune.search import Bench, Search, missing_packages, planned, storage
from tidegate._tune.space import axes
from tidegate.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client


def _listed(given: str | Iterable[str] | None) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def _over(given: Mapping[str, Iterable[Any]] | None) -> dict[str, list[Any]]:
    return {key: list(values) for key, values in (given or {}).items()}


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
    around their defaults. With `out`, an interrupted search is continued by the same call.
    """
    try:
        import optuna  # noqa: F401
        import scipy  # noqa: F401
    except ImportError:
        raise missing_packages() from None
    names = protocols.split(",") if isinstance(protocols, str) else list(protocols)
    wanted = [goals.objective(text) for text in _listed(objective)]
    bounds = [goals.constraint(text) for text in _listed(subject_to)]
    if not names or not wanted:
        missing = "--protocols" if not names else "--objective"
        raise UsageError(f"{missing}: found none, expected at least one")
    whole("--budget", budget, 2 * len(names), 1_000_000)
    searched = list(range(1, whole("--seeds", seeds, 1, 1000) + 1))
    if short_runs is not None:
        whole("--short-runs", short_runs, 2, 1000)
    whole("--final-seeds", final_seeds, 2, 1000)
    whole("--search-seed", search_seed, 0, 2**32 - 1)
    threading(threads)
    if force and out is None:
        raise UsageError("--force: replaces output files, but this search writes none: name --out")
    bench = Bench(given, changes(set), _over(over), threads, cache, client, progress)
    short = [] if short_runs is None else bench.short(short_runs)
    known = {one.name: one for one in catalog()}
    found = {}
    for name in names:
        planned(bench, name, {})
        found[name] = axes(
            known[name], known.values(), None if params is None else _listed(params), ranges or {}
        )
        if not found[name]:
            raise UsageError(f"--params: no parameter of {name} is searched: name some")
    name = planned(bench, names[0], {}).name
    settings = {
        "scenario": scenario(given),
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
    folder = None if out is None else Folder(os.fspath(out))
    if folder is not None:
        files.opened(folder, settings, force)
    kept = storage(None if folder is None else str(folder / files.JOURNAL))
    searches = [
        Search(bench, name, found[name], (wanted, bounds), searched, short, kept, search_seed)
        for name in names
    ]
    best: dict[str, float] = {}
    for search in searches:
        search.best = best
        search.remember()
    share, width = budget // len(names), threads or os.cpu_count() or 1
    while (search := min(searches, key=lambda one: one.order)).done < share:
        search.batch(min(width, share - search.done))
        if folder is not None:
            files.write_so_far(folder, searches, wanted[0])
    study = answered(name, bench, searches, (wanted, bounds), (searched, final_seeds))
    if folder is not None:
        files.write_study(folder, study, bench)
        study = replace(study, folder=folder)
    warn(study.warnings)
    return study
