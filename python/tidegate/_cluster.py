"""The runs of a sweep on the workers of a Dask cluster."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate import _native
from tidegate._arguments import SweepRequest
from tidegate._progress import Bar
from tidegate.errors import RunError, UsageError

if TYPE_CHECKING:
    from distributed import Client

# Target duration of a batch: a worker that dies loses little, and scheduling costs little.
BATCH_SECONDS = 60.0


def make(runs: list[int], request: SweepRequest, cache: str, build: str) -> int:
    """Execute runs into the shared cache, on a worker; return their number."""
    if _native.build() != build:
        raise RunError(
            "a worker has another version of tidegate: install the same version on all workers"
        )
    _native.make_runs(request, ((1, None), cache), runs)
    return len(runs)


def batches(missing: list[int], run_seconds: float, threads: int) -> list[list[int]]:
    """Divide runs into batches of about a minute, at least one per thread."""
    size = math.ceil(BATCH_SECONDS / max(run_seconds, 1e-3))
    size = max(1, min(size, math.ceil(len(missing) / max(threads, 1))))
    return [missing[at : at + size] for at in range(0, len(missing), size)]


def slots(client: Client | bool | None) -> int | None:
    """Return the number of runs that a cluster makes at a time; `None` without a cluster."""
    if client is None or isinstance(client, bool):
        return None
    return int(sum(client.nthreads().values()))


def fill(
    request: SweepRequest, cache: str | None, client: Client | Literal[True], progress: bool | None
) -> None:
    """Let the workers execute the runs that the cache lacks.

    If a worker dies, Dask gives its batches to another one. Completed runs stay in the cache.
    """
    if cache is None:
        raise UsageError("--no-cache: a cluster needs a cache in a folder that all workers share")
    from distributed import Client as Connected
    from distributed import KilledWorker, LocalCluster, as_completed

    if client is True:
        with LocalCluster(threads_per_worker=1) as cluster, Connected(cluster) as connected:
            fill(request, cache, connected, progress)
        return
    cache = os.fspath(Path(cache).absolute())
    kind, text = request["scenario"]
    if kind == "file":
        request = {**request, "scenario": (kind, os.fspath(Path(text).absolute()))}
    missing = _native.missing_runs(request, ((None, None), cache))
    if not missing:
        return
    try:
        expected = json.loads(_native.forecast(request, ((1, None), cache)))
        seconds = expected["wall_seconds"] / len(missing)
    except RunError:
        # The sweep itself reports failing runs.
        seconds = BATCH_SECONDS
    parts = batches(missing, seconds, sum(client.nthreads().values()))
    done = 0
    with Bar(progress) as bar:
        work = {"request": request, "cache": cache, "build": _native.build()}
        futures = client.map(make, parts, pure=False, **work)
        try:
            for _, made in as_completed(futures, with_results=True):
                done += made
                if bar.callback is not None:
                    bar.callback(done, len(missing), done / len(missing))
        except KilledWorker as why:
            message = "workers died repeatedly at the same runs; completed runs are cached"
            raise RunError(f"{message} ({why})") from why
        finally:
            client.cancel(futures)
