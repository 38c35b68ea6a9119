"""Sweeps, on this machine or on a cluster."""

from __future__ import annotations

import json
from pathlib import Path as Folder
from typing import TYPE_CHECKING

from tidegate import _native
from tidegate._arguments import (
    MOST,
    Asked,
    Changes,
    Path,
    Scenario,
    Seeds,
    Vary,
    cache_folder,
    changes,
    how,
    most_threads,
    scenario,
    seeds_text,
    vary_texts,
    whole,
)
from tidegate._progress import Bar, warn
from tidegate.results import Forecast, Sweep, made

if TYPE_CHECKING:
    from distributed import Client


def _asked(
    given: Scenario,
    vary: Vary,
    mode: tuple[bool, int | None, int],
    set: Changes,
    seeds: Seeds | None,
    baseline: str | None = None,
) -> Asked:
    together, points, search_seed = mode
    return {
        "scenario": scenario(given),
        "vary": vary_texts(vary),
        "zip": together,
        "random": None if points is None else whole("--random", points, 1, MOST),
        "search_seed": whole("--search-seed", search_seed, 0, MOST),
        "set": changes(set),
        "seeds": None if seeds is None else seeds_text(seeds),
        "baseline": baseline,
    }


def sweep(
    given: Scenario,
    vary: Vary = None,
    *,
    zip: bool = False,
    random: int | None = None,
    search_seed: int = 1,
    set: Changes = None,
    seeds: Seeds | None = None,
    baseline: str | None = None,
    threads: int | None = None,
    out: Path | None = None,
    force: bool = False,
    cache: Path | bool = True,
    progress: bool | None = None,
    client: Client | bool | None = None,
) -> Sweep:
    """Run a scenario with other values of its keys, as `tidegate sweep` does.

    `given` is a scenario, and `vary` its keys with their values; or it is the file of a sweep.
    Several keys are a grid, or go together with `zip`; `random` draws so many points of the grid.
    Where the protocol varies, metrics have their differences from `baseline`, which is the first of
    the protocols unless it is set.

    Runs are kept in a folder of the user's cache, in another one that `cache` names, or, where that
    is `False`, nowhere.

    With `client`, a Dask client, or `True` for one of workers on this machine, the runs that the
    cache lacks are made by its workers. The cache has to be a folder that all of them share.
    """
    asked = _asked(given, vary, (zip, random, search_seed), set, seeds, baseline)
    threads, to, force = how(threads, out, force)
    at = cache_folder(cache)
    if client is not None and client is not False:
        from tidegate._cluster import fill

        fill(asked, at, client, progress)
    with Bar(progress) as bar:
        text, kept, table = _native.sweep(asked, (threads, at), to, force, bar.tell)
    done = made(Sweep, json.loads(text), table=table, kept=kept, folder=to and Folder(to))
    warn(done.warnings)
    if done.failed:
        first = done.failed[0]
        runs = len(done.points) * len(done.seeds)
        warn([f"{len(done.failed)} of {runs} runs failed, seed {first.seed} first: {first.why}"])
    return done


def forecast(
    given: Scenario,
    vary: Vary = None,
    *,
    zip: bool = False,
    random: int | None = None,
    search_seed: int = 1,
    set: Changes = None,
    seeds: Seeds | None = None,
    threads: int | None = None,
    cache: Path | bool = True,
) -> Forecast:
    """Say what a sweep is going to take, by the beginning of some of its runs."""
    asked = _asked(given, vary, (zip, random, search_seed), set, seeds)
    options = most_threads(threads), cache_folder(cache)
    return made(Forecast, json.loads(_native.forecast(asked, options)))
