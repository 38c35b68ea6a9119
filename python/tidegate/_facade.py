"""Runs, comparisons, reproductions, and information about scenarios and protocols."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path as Folder
from typing import Any, TypeAlias, overload

from tidegate import _native
from tidegate._arguments import (
    Changes,
    Path,
    Scenario,
    Seeds,
    Threads,
    cache_folder,
    changes,
    folder,
    how,
    scenario,
    seed_number,
    seeds_text,
    threading,
)
from tidegate._native import Table
from tidegate._progress import Bar, warn
from tidegate.errors import RunError, UsageError
from tidegate.results import (
    Aggregate,
    Claim,
    Comparison,
    Figure,
    Plan,
    Protocol,
    Run,
    Sweep,
    made,
)

_Tables: TypeAlias = Iterable[tuple[int, str, Table]]


def load(given: Scenario, *, set: Changes = None, seed: int | None = None) -> Plan:
    """Load a scenario with overrides; raise an error if it is invalid."""
    text = _native.load(scenario(given), changes(set), seed_number(seed))
    plan = made(Plan, json.loads(text))
    warn(plan.warnings)
    return plan


def protocols() -> list[Protocol]:
    """Return all protocols, in the order of the catalog."""
    return [made(Protocol, one) for one in json.loads(_native.protocols())]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    described: dict[str, Any] = json.loads(_native.schema())
    return described


@overload
def run(
    given: Scenario,
    *,
    set: Changes = ...,
    seed: int | None = ...,
    seeds: None = ...,
    threads: int | None = ...,
    partitions: int | None = ...,
    out: Path | None = ...,
    force: bool = ...,
    pcap: Path | None = ...,
    pcap_of: Iterable[str] = ...,
    progress: bool | None = ...,
) -> Run: ...
@overload
def run(
    given: Scenario,
    *,
    set: Changes = ...,
    seeds: Seeds,
    threads: int | None = ...,
    partitions: int | None = ...,
    out: Path | None = ...,
    force: bool = ...,
    progress: bool | None = ...,
) -> Aggregate: ...
def run(
    given: Scenario,
    *,
    set: Changes = None,
    seed: int | None = None,
    seeds: Seeds | None = None,
    threads: int | None = None,
    partitions: int | None = None,
    out: Path | None = None,
    force: bool = False,
    pcap: Path | None = None,
    pcap_of: Iterable[str] = (),
    progress: bool | None = None,
) -> Run | Aggregate:
    """Run a scenario like `tidegate run`; with `seeds`, under several seeds.

    Without `out`, nothing is written and the tables are in memory; with `out`, they are read from
    that folder on demand. `progress` shows a bar; `None` shows one in terminals and notebooks.

    `partitions` is for tests of determinism: each run is divided into this number of partitions, at
    most one per rack, each on its own thread, even if that is slower and whatever `threads` is.
    `summary.engine.threads` is their number.
    """
    captures = None if pcap is None else (os.fspath(pcap), list(pcap_of))
    if seeds is not None:
        if seed is not None or captures is not None:
            raise UsageError("--seeds: cannot be combined with seed or pcap")
        options = how(threads, out, force, partitions)
        return _seeds(given, (None, None), (set, seeds), options, progress)
    seed = seed_number(seed)
    if pcap is not None:  # The capture is a file that `force` may replace.
        options = threading(threads, partitions), folder(out), force
    else:
        options = how(threads, out, force, partitions)
    with Bar(progress) as bar:
        text, tables = _native.run(
            scenario(given), changes(set), seed, options, captures, bar.callback
        )
    summary = json.loads(text)
    done = made(Run, _run(summary, out, tables=tables), protocol=" + ".join(summary["protocols"]))
    warn(done.summary.warnings)
    return done


@overload
def compare(
    given: Scenario,
    protocols: Iterable[str],
    *,
    set: Changes = ...,
    seed: int | None = ...,
    seeds: None = ...,
    threads: int | None = ...,
    partitions: int | None = ...,
    out: Path | None = ...,
    force: bool = ...,
    progress: bool | None = ...,
) -> Comparison: ...
@overload
def compare(
    given: Scenario,
    protocols: Iterable[str],
    *,
    set: Changes = ...,
    seeds: Seeds,
    baseline: str | None = ...,
    threads: int | None = ...,
    partitions: int | None = ...,
    out: Path | None = ...,
    force: bool = ...,
    progress: bool | None = ...,
) -> Aggregate: ...
def compare(
    given: Scenario,
    protocols: Iterable[str],
    *,
    set: Changes = None,
    seed: int | None = None,
    seeds: Seeds | None = None,
    baseline: str | None = None,
    threads: int | None = None,
    partitions: int | None = None,
    out: Path | None = None,
    force: bool = False,
    progress: bool | None = None,
) -> Comparison | Aggregate:
    """Run a scenario under several protocols like `tidegate compare`; arguments as in `run`.

    With several seeds, metrics have differences from `baseline` (default: the first protocol).
    """
    names = protocols.split(",") if isinstance(protocols, str) else list(protocols)
    if not names:
        raise UsageError("--protocols: found none, expected at least one")
    seed = seed_number(seed)
    if seeds is not None:
        if seed is not None:
            raise UsageError("--seeds: cannot be combined with seed")
        options = how(threads, out, force, partitions)
        return _seeds(given, (names, baseline), (set, seeds), options, progress)
    if baseline is not None:
        raise UsageError("--baseline: compares seed by seed and needs several seeds: add seeds=5")
    with Bar(progress) as bar:
        options = how(threads, out, force, partitions)
        text, warnings, tables = _native.compare(
            scenario(given), names, changes(set), seed, options, bar.callback
        )
    comparison = _comparison(json.loads(text), out, tables)
    warn(warnings)
    return comparison


def _seeds(
    given: Scenario,
    compared: tuple[list[str] | None, str | None],
    of: tuple[Changes, Seeds],
    options: tuple[Threads, str | None, bool],
    progress: bool | None,
) -> Aggregate:
    """Run a scenario under several seeds."""
    with Bar(progress) as bar:
        changed, seeds = changes(of[0]), seeds_text(of[1])
        text = _native.run_seeds(scenario(given), *compared, changed, seeds, options, bar.callback)
    aggregate = made(Aggregate, json.loads(text), folder=_path(options[1]))
    warn(aggregate.warnings)
    return aggregate


def _path(out: Path | None) -> Folder | None:
    return None if out is None else Folder(out)


def _run(
    summary: dict[str, Any], out: Path | None, number: int = 0, tables: _Tables = ()
) -> dict[str, Any]:
    """Return the fields of a run: its summary, and its tables from a folder or by run number."""
    at = _path(out)
    if at is None:
        found = {name: table for of, name, table in tables if of == number}
    else:
        names = ("flows.parquet", "timeseries.parquet")
        found = {name: Table(at / name) for name in names if (at / name).exists()}
        if names[0] not in found:
            raise RunError(f"{at / names[0]}: the file is missing; every run writes it")
    return {
        "summary": summary,
        "flows": found["flows.parquet"],
        "timeseries": found.get("timeseries.parquet"),
        "folder": at,
    }


def _comparison(data: dict[str, Any], out: Path | None, tables: _Tables = ()) -> Comparison:
    at = _path(out)
    runs = [
        {**_run(one["summary"], at and at / one["protocol"], i, tables), **one}
        for i, one in enumerate(data["runs"])
    ]
    return made(Comparison, data, runs=runs, folder=at)


def read(results: Path) -> Run | Comparison | Aggregate | Sweep:
    """Read results that `run`, `compare` or `sweep`, or the command, wrote to a folder.

    Tables are read on demand.
    """
    at = Folder(results)

    def content(name: str) -> Any:
        try:
            return json.loads((at / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as why:
            raise RunError(f"{at / name}: {why}") from why

    # Check containers first: they contain folders of individual results.
    if (at / "sweep.json").exists():
        return made(Sweep, content("sweep.json"), table=Table(at / "sweep.parquet"), folder=at)
    if (at / "aggregate.json").exists():
        return made(Aggregate, content("aggregate.json"), folder=at)
    if (at / "comparison.json").exists():
        return _comparison(content("comparison.json"), at)
    if (at / "summary.json").exists():
        summary = content("summary.json")
        return made(Run, _run(summary, at), protocol=" + ".join(summary["protocols"]))
    raise RunError(f"{at}: holds no results: write them with out, or --out of the command")


def figures(what: str | None = None) -> list[Figure]:
    """Return the reproducible figures: all, those of a paper, or one (`"poseidon/14"`)."""
    return [made(Figure, one) for one in json.loads(_native.figures(what))]


def reproduce(
    what: str | None = None,
    *,
    quick: bool = False,
    sensitivity: bool = False,
    threads: int | None = None,
    out: Path | None = None,
    force: bool = False,
    cache: Path | bool = True,
    progress: bool | None = None,
) -> list[Claim]:
    """Reproduce figures of papers like `tidegate reproduce`; return the claims with verdicts.

    Runs are cached in a folder of the user's cache, or in the folder `cache`; `False` disables it.
    """
    with Bar(progress) as bar:
        options = how(threads, out, force)
        at = cache_folder(cache)
        text = _native.reproduce(what, quick, sensitivity, options, at, bar.callback)
    return [made(Claim, one) for one in json.loads(text)]
