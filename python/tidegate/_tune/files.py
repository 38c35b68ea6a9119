"""Files of a study: its results, scenarios that run as they are, and a page."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidegate._tune.answer import Study, Tuned
from tidegate._tune.goals import Objective
from tidegate._tune.search import Bench, Candidate, Search, feasible, portable
from tidegate.errors import OutputError, UsageError

RESULT = "tune.json"
SETTINGS = "search.json"
JOURNAL = "search.log"
SO_FAR = "best-so-far.json"
TRIALS = "trials.csv"
PAGE = "tune.html"


def write(path: Path, text: str) -> None:
    """Write a file, completely or not at all."""
    with _completely(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def _completely(path: Path) -> Iterator[Path]:
    """Move a partial file to `path` when it is complete."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as why:
        raise OutputError(f"--out: {path}: {why}") from why


def opened(folder: Path, settings: dict[str, Any], force: bool) -> bool:
    """Prepare a folder; return whether it holds an interrupted search with the same settings."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out: {folder} is not a folder")
    kept = folder / SETTINGS
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    text = json.dumps({"settings": digest, **settings}, indent=2) + "\n"
    if force:
        for name in (RESULT, SETTINGS, JOURNAL, SO_FAR, TRIALS, PAGE):
            (folder / name).unlink(missing_ok=True)
    if (folder / RESULT).exists():
        raise UsageError(
            f"--out: {folder} already holds the results of a search: add --force to replace them, "
            "or choose another folder"
        )
    is_begun = kept.exists()
    if is_begun and kept.read_text(encoding="utf-8") != text:
        raise UsageError(
            f"--out: {folder} holds an interrupted search with other settings: repeat them to "
            "continue it, add --force to replace it, or choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise OutputError(f"--out: {folder}: {why}") from why
    write(kept, text)
    return is_begun


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
    write(folder / SO_FAR, json.dumps(best, indent=2) + "\n")


def write_study(folder: Path, study: Study, bench: Bench) -> None:
    """Write the results of a search: `tune.json` last, as it marks the others as complete."""
    for one in study.protocols:
        text, named = portable(bench, one.protocol, one.recommended)
        for name, original in named:
            with _completely(folder / name) as partial:
                shutil.copyfile(original, partial)
        write(folder / f"{one.protocol}.toml", _head(study, one) + text)
    _write_trials(folder / TRIALS, study.candidates)
    try:
        from tidegate._tune.page import page
    except ImportError:
        pass  # Without matplotlib there is no page.
    else:
        write(folder / PAGE, page(study))
    (folder / SO_FAR).unlink(missing_ok=True)
    write(folder / RESULT, json.dumps(content(study), indent=2) + "\n")


def content(study: Study) -> dict[str, Any]:
    """Return what `tune.json` holds."""
    data = asdict(study)
    data.pop("folder")
    return {"schema": 1, **data}


def _head(study: Study, one: Tuned) -> str:
    goal = study.objectives[0]
    if one.is_improved:
        what, values = "tuned parameters", f"{one.tuned}, with the defaults {one.default}"
    else:
        what = "its defaults: no candidate is better"
        values = f"{one.default}, with the best candidate {one.tuned}"
    return (
        f"# {study.name}: {one.protocol} with {what}.\n"
        f"# {goal}: {values}, on seeds that the search did not use.\n\n"
    )


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
