"""Sweeps, on this machine or on a cluster."""

from __future__ import annotations

import json
from pathlib import Path as Folder
from typing import TYPE_CHECKING

from tidegate import _native
from tidegate._arguments import (
    MOST,
    Changes,
    Path,
    Scenario,
    Seeds,
    SweepRequest,
    Vary,
    cache_folder,
    changes,
    how,
    scenario,
    seeds_text,
    threading,
    vary_texts,
    whole,
)
from tidegate._progress import Bar, warn
from tidegate.results import Forecast, Sweep, made

if TYPE_CHECKING:
    from distributed import Client


def _request(
    given: Scenario,
    vary: Vary,
    mode: tuple[bool, int | None, int],
    set: Changes,
    seeds: Seeds | None,
    baseline: str | None = None,
) -> SweepRequest:
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
    partitions: int | None = None,
    out: Path | None = None,
    force: bool = False,
    cache: Path | bool = True,
    progress: bool | None = None,
    client: Client | bool | None = None,
) -> Sweep:
    """Run a scenario with varied keys like `tidegate sweep`.

    `given` is a scenario, and `vary` its keys with their values; or `given` is a sweep file.
    Several keys form a grid, or are combined pairwise with `zip`; `random` chooses a number of
    points of the grid at random. If the protocol varies, metrics have differences from `baseline`
    (default: the first protocol).

    Runs are cached in a folder of the user's cache, or in the folder `cache`; `False` disables it.

    `client` is a Dask client, or `True` for one with workers on this machine: its workers execute
    the runs that the cache lacks. The cache must be a folder that all workers share.

    `partitions` is for tests, as in `run`; runs of a cluster have one.
    """
    request = _request(given, vary, (zip, random, search_seed), set, seeds, baseline)
    divided, to, force = how(threads, out, force, partitions)
    at = cache_folder(cache)
    if client is not None and client is not False:
        from tidegate._cluster import fill

        fill(request, at, client, progress)
    with Bar(progress) as bar:
        text, kept, table = _native.sweep(request, (divided, at), to, force, bar.callback)
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
    """Estimate the cost of a sweep from the beginning of some of its runs."""
    request = _request(given, vary, (zip, random, search_seed), set, seeds)
    options = threading(threads), cache_folder(cache)
    return made(Forecast, json.loads(_native.forecast(request, options)))
