"""Convert Python arguments for the extension module."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from tidegate import _native
from tidegate._progress import warn
from tidegate.errors import ScenarioError, UsageError

Scenario: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""A path, TOML (a text of several lines), or a dictionary with the same content."""

Changes: TypeAlias = "Mapping[str, Any] | Iterable[str] | None"
"""Keys with their values, or texts such as `"duration=2ms"`."""

Seeds: TypeAlias = "int | str | Iterable[int]"
"""A count (5: seeds 1 to 5), a text such as `"1..5"`, or a list of seeds."""

Vary: TypeAlias = "Mapping[str, str | Iterable[Any]] | Iterable[str] | None"
"""Keys with their values: a list, or a text such as `"0.3..0.9:0.1"`."""

Path: TypeAlias = "str | os.PathLike[str]"
"""A path."""

Threads: TypeAlias = "tuple[int | None, int | None]"
"""The maximum number of threads, and the number of partitions of each run."""


MOST = 2**63 - 1
"""The largest whole number in TOML."""


class SweepRequest(TypedDict):
    """A sweep as the extension module takes it; it can be sent to other processes."""

    scenario: tuple[str, str]
    vary: list[str]
    zip: bool
    random: int | None
    search_seed: int
    set: list[str]
    seeds: str | None
    baseline: str | None


def plain(value: Any, key: str) -> Any:
    """Convert `value` to types of TOML; `key` names it in the error message."""
    if isinstance(value, (int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {
            str(name): plain(one, f"{key}.{name}" if key else str(name))
            for name, one in value.items()
        }
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers.
        return plain(value.tolist(), key)
    if isinstance(value, Iterable):
        return [plain(one, f"{key}[{i}]") for i, one in enumerate(value)]
    expected = "a text, a number, true or false, a list or a dictionary"
    if isinstance(value, float):
        expected = "a finite number"
    raise ScenarioError(f"scenario: {key}: found {value!r}, expected {expected}")


def toml(value: Any, key: str) -> str:
    """Format `value` as a TOML value."""
    return _native.toml_value(json.dumps(plain(value, key)))


def scenario(given: Scenario) -> tuple[str, str]:
    """Convert a scenario to its kind, and a path or TOML."""
    if isinstance(given, (bytes, bytearray)):
        raise ScenarioError(
            "scenario: found bytes, expected a path, a text of TOML or a dictionary: decode them, "
            'as in given.decode("utf-8")'
        )
    if isinstance(given, Mapping):
        return "made", _native.toml_document(json.dumps(plain(given, "")))
    if isinstance(given, str) and "\n" in given:
        return "text", given
    return "file", os.fspath(given)


def changes(given: Changes) -> list[str]:
    """Convert overrides to texts in the syntax of `--set`."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{key}={toml(value, key)}" for key, value in given.items()]
    return texts("--set", given, "a dictionary, or a list of texts")


def texts(option: str, given: Any, expected: str) -> list[str]:
    """Check that an argument is a list of texts, and no text."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    listed: list[Any] = list(given) if is_list else [None]
    if not all(isinstance(one, str) for one in listed):
        raise UsageError(f"{option}: found {given!r}, expected {expected}")
    return listed


def seeds_text(given: Seeds) -> str:
    """Convert seeds to a text in the syntax of `--seeds`."""
    if isinstance(given, (int, str)):
        return str(given)
    # A single seed becomes a range, since a number alone is a count.
    listed = [str(seed) for seed in given]
    return f"{listed[0]}..{listed[0]}" if len(listed) == 1 else ",".join(listed)


def vary_texts(given: Vary) -> list[str]:
    """Convert varied keys to texts in the syntax of `--vary`."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{key}={values(key, of)}" for key, of in given.items()]
    if isinstance(given, str):
        return [given]
    return list(given)


def values(key: str, given: str | Iterable[Any]) -> str:
    """Convert the values of a key to the syntax of `--vary`."""
    if isinstance(given, str):
        return given
    listed = plain(given, key)
    if not isinstance(listed, list):
        raise UsageError(
            f"--vary: {key}: found {given!r}, expected a list of values, or a text such as "
            '"0.3..0.9:0.1"'
        )
    return ",".join(toml(value, key) for value in listed)


def whole(option: str, given: int, least: int, most: int) -> int:
    """Check that a number is whole and in range."""
    expected = f"expected a whole number from {least} to {most}"
    try:
        number = operator.index(given)
    except TypeError:
        raise UsageError(f"{option}: found {given!r}, {expected}") from None
    if not least <= number <= most:
        raise UsageError(f"{option}: found {number}, {expected}")
    return number


def seed_number(given: int | None) -> int | None:
    """Check the seed of a run."""
    return None if given is None else whole("--seed", given, 0, MOST)


def threading(threads: int | None, partitions: int | None = None) -> Threads:
    """Check the maximum number of threads, and the number of partitions of each run."""

    def checked(option: str, given: int | None) -> int | None:
        return None if given is None else whole(option, given, 1, 65_535)

    return checked("--threads", threads), checked("--partitions", partitions)


def folder(given: Path | None) -> str | None:
    """Convert the path of an output folder to text."""
    return None if given is None else _path("--out", given)


def _path(option: str, given: Any) -> str:
    if not isinstance(given, (str, os.PathLike)):
        raise UsageError(f"{option}: found {given!r}, expected a path")
    return os.fspath(given)


def how(
    threads: int | None, out: Path | None, force: bool, partitions: int | None = None
) -> tuple[Threads, str | None, bool]:
    """Check the options of a run."""
    if force and out is None:
        raise UsageError(
            "--force: replaces output files, but this run writes none: name a folder with --out"
        )
    return threading(threads, partitions), folder(out), force


def cache_folder(cache: Path | bool) -> str | None:
    """Return the cache folder; a named folder must be usable.

    If the default folder is not usable, a warning is raised and runs are not cached.
    """
    if cache is False:
        return None
    at = _native.default_cache() if cache is True else cache
    if at is None:
        return None
    folder = _path("--cache", at)
    try:
        _native.can_keep(folder)
    except UsageError as why:
        if cache is not True:
            raise
        warn([str(why)])
        return None
    return folder
