"""Files of a study: its results, scenarios that run as they are, and a page."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidegate import _native
from tidegate._tune.goals import Objective
from tidegate._tune.search import Bench, Candidate, Search, feasible, portable
from tidegate._tune.study import FrontPoint, Study, Tuned
from tidegate.errors import OutputError, UsageError

RESULT = "tune.json"
SETTINGS = "search.json"
JOURNAL = "search.log"
SO_FAR = "best-so-far.json"
TRIALS = "trials.csv"
PAGE = "tune.html"
LOCK = ".tidegate.lock"
FRONT = "front-[0-9]*.toml"
FILES = "files"
"""Folder of the files that the scenario names."""

_PARTIAL = ".*.partial"


class Interrupted(KeyboardInterrupt):
    """An interruption after a search has begun in a folder, where it can continue."""


def is_interruption(why: BaseException | None) -> bool:
    """Return whether an error comes from an interruption, which Optuna's lock can replace."""
    while why is not None and not isinstance(why, KeyboardInterrupt):
        why = why.__cause__ or why.__context__
    return why is not None


def write(path: Path, text: str) -> None:
    """Write a file, completely or not at all."""
    with _completely(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def _completely(path: Path) -> Iterator[Path]:
    """Move a partial file to `path` when it is complete."""
    partial = path.with_name(_PARTIAL.replace("*", path.name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as why:
        raise OutputError(f"--out: {path}: {why}") from why
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder, and keep other searches out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except IsADirectoryError:
        raise OutputError(
            f"--out: {folder / LOCK} is a folder, expected the search's lock file: remove it, or "
            "choose another folder"
        ) from None
    except OSError as why:
        raise OutputError(f"--out: {folder}: {why.strerror}") from why
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"--out: another search writes to {folder}") from None
        # The file stays: a search that has opened it already would lock a removed file.
        yield


def mend(journal: Path) -> None:
    """Remove an incomplete last line, which an interruption left; other damage is an error.

    Also remove Optuna's lock, for which a search would wait if a killed one left it: `locked`
    excludes other searches.
    """
    journal.with_name(f"{journal.name}.lock").unlink(missing_ok=True)
    data = journal.read_bytes() if journal.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    for at, line in enumerate(whole.splitlines(), 1):
        try:
            json.loads(line)
        except ValueError:
            raise OutputError(
                f"--out: {journal}: line {at} is damaged: add --force to start again"
            ) from None
    if whole != data:
        os.truncate(journal, len(whole))


def _text(settings: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return document({"settings": digest, **settings})


def check(folder: Path, settings: dict[str, Any], force: bool) -> None:
    """Raise an error if a folder holds something else than a search that may continue."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out: {folder} is a file, expected a folder: choose another name")
    if not folder.exists():
        return
    kept = folder / SETTINGS
    try:
        # A search that was killed may leave partial files, also before its settings.
        others = [it for it in folder.iterdir() if it.name != LOCK and not it.match(_PARTIAL)]
    except OSError as why:
        raise OutputError(f"--out: {folder}: {why}") from why
    if others and not kept.exists():
        raise UsageError(f"--out: {folder} holds files of something else: choose an empty folder")
    if force:
        return
    if (folder / RESULT).exists():
        raise UsageError(
            f"--out: {folder} already holds the results of a search: add --force to replace them, "
            "or choose another folder"
        )
    if kept.exists() and kept.read_bytes() != _text(settings).encode():
        raise UsageError(
            f"--out: {folder} holds an interrupted search with other settings, or of another state "
            "of the scenario: repeat them to continue it, add --force to replace it, or choose "
            "another folder"
        )


def begin(folder: Path, settings: dict[str, Any], force: bool) -> None:
    """Prepare a folder, which may hold an interrupted search with the same settings."""
    check(folder, settings, force)
    if force:
        _remove(folder)
    write(folder / SETTINGS, _text(settings))


def _remove(folder: Path) -> None:
    """Remove the files of an earlier search."""
    try:
        protocols = json.loads((folder / SETTINGS).read_bytes())["protocols"]
    except (OSError, ValueError, KeyError):
        protocols = []
    scenarios = [f"{one}.toml" for one in protocols]
    fronts = [one.name for one in folder.glob(FRONT)]
    for name in (RESULT, JOURNAL, SO_FAR, TRIALS, PAGE, *scenarios, *fronts, SETTINGS):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / FILES, ignore_errors=True)


def write_so_far(folder: Path, searches: Iterable[Search], goal: Objective) -> None:
    """Write the best candidate of each protocol so far."""
    best = {}
    for search in searches:
        found = feasible(search.candidates())
        if found:
            first = found[0]
            for one in found[1:]:
                if goal.is_better(one.objectives[0], first.objectives[0]):
                    first = one
            best[search.protocol] = {"values": first.values, "objectives": first.objectives}
    write(folder / SO_FAR, document(best))


def write_study(folder: Path, study: Study, bench: Bench) -> None:
    """Write the results of a search: `tune.json` last, as it marks the others as complete."""
    for old in folder.glob(FRONT):
        old.unlink()
    scenarios = [
        (one.protocol, one.protocol, one.recommended, _head(study, one)) for one in study.protocols
    ]
    scenarios += [
        (one.name, one.protocol, one.values, _front_head(study, one)) for one in study.front
    ]
    for name, protocol, values, head in scenarios:
        text, named = portable(bench, protocol, values, FILES)
        for copy, original in named:
            with _completely(folder / copy) as partial:
                shutil.copyfile(original, partial)
        write(folder / f"{name}.toml", head + text)
    _write_trials(folder / TRIALS, study.candidates)
    try:
        from tidegate._tune.page import page
    except ImportError:
        pass  # Without matplotlib there is no page.
    else:
        write(folder / PAGE, page(study))
    (folder / SO_FAR).unlink(missing_ok=True)
    write(folder / RESULT, content(study))


def content(study: Study) -> str:
    """Return what `tune.json` holds."""
    data = asdict(study)
    data.pop("folder")
    version, revision, semantics = _native.versions()
    of = {"version": version, "revision": revision, "semantics": semantics}
    return document({"schema": 1, **of, **data})


def document(data: dict[str, Any]) -> str:
    """Return data as JSON."""
    return json.dumps(_finite(data), indent=2, allow_nan=False) + "\n"


def _finite(data: Any) -> Any:
    """Return data for JSON, which has no NaN and no infinity: unknown values are null."""
    if isinstance(data, dict):
        return {key: _finite(one) for key, one in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(one) for one in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _head(study: Study, one: Tuned) -> str:
    goal = study.objectives[0]
    lines = _over(study)
    if not one.meets_constraints:
        lines.append(f"# It violates {', '.join(study.constraints)}.")
    if one.is_improved:
        what, values = "tuned parameters", f"{one.tuned}, with the defaults {one.default}"
    else:
        what = f"its defaults: {study.why_default(one)}"
        values = f"{one.default}, with the best candidate {one.tuned}"
    lines = [
        f"# {study.name}: {one.protocol} with {what}.",
        f"# {goal}: {values}, on seeds that the search did not use.",
        *lines,
    ]
    return "\n".join(lines) + "\n\n"


def _front_head(study: Study, one: FrontPoint) -> str:
    seeds = "seeds that the search did not use" if one.measured else "the seeds of the search"
    values = one.measured or [f"{mean:.4g}" for mean in one.searched]
    lines = [
        f"# {study.name}: {one.name}, a point of the Pareto front, of {one.protocol}.",
        *(
            f"# {goal}: {value}, on {seeds}."
            for goal, value in zip(study.objectives, values, strict=True)
        ),
        *_over(study),
    ]
    if one.holds is False:
        lines.append(
            "# On these seeds, another point is better, a constraint is violated, or a run failed."
        )
    return "\n".join(lines) + "\n\n"


def _over(study: Study) -> list[str]:
    return [f"# Mean over {key} = {', '.join(each)}." for key, each in study.over.items()]


def _write_trials(path: Path, candidates: Sequence[Candidate]) -> None:
    names = sorted({name for one in candidates for name in one.values})
    with _completely(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        goals = max((len(one.objectives) for one in candidates), default=1)
        heads = [f"objective_{i + 1}" for i in range(goals)]
        table.writerow(["protocol", "trial", "state", *heads, *names])
        for one in candidates:
            values = [*one.objectives, *[""] * (goals - len(one.objectives))]
            own = [one.values.get(name, "") for name in names]
            table.writerow([one.protocol, one.number, one.state, *values, *own])
