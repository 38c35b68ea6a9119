"""What the facade takes, from what Python has."""

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
"""A path, TOML (a text of more than one line), or the same as a dictionary."""

Changes: TypeAlias = "Mapping[str, Any] | Iterable[str] | None"
"""Keys and their values, or texts such as `"duration=2ms"`."""

Seeds: TypeAlias = "int | str | Iterable[int]"
"""How many (5: seeds 1 to 5), a text such as `"1..5"`, or a list of seeds."""

Vary: TypeAlias = "Mapping[str, str | Iterable[Any]] | Iterable[str] | None"
"""Keys and their values: a list, or a text such as `"0.3..0.9:0.1"`."""

Path: TypeAlias = "str | os.PathLike[str]"
"""A path."""


MOST = 2**63 - 1
"""The largest number that TOML has."""


class Asked(TypedDict):
    """A sweep as the facade takes it; can be handed to other processes."""

    scenario: tuple[str, str]
    vary: list[str]
    zip: bool
    random: int | None
    search_seed: int
    set: list[str]
    seeds: str | None
    baseline: str | None


def plain(value: Any, key: str) -> Any:
    """`value` in the types that TOML has; `key` names it in the message if it has none."""
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
    raise ScenarioError(f"scenario: {key}: found {value!r}, expected {expected}")


def toml(value: Any, key: str) -> str:
    """`value` as TOML writes it behind a key."""
    return _native.toml_value(json.dumps(plain(value, key)))


def scenario(given: Scenario) -> tuple[str, str]:
    """What the facade calls a scenario: its kind, and a path or TOML."""
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
    """Texts as `--set` takes them."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{key}={toml(value, key)}" for key, value in given.items()]
    if isinstance(given, str):
        raise UsageError(f"--set: found {given!r}, expected a dictionary, or a list of texts")
    return list(given)


def seeds_text(given: Seeds) -> str:
    """A text as `--seeds` takes it."""
    if isinstance(given, (int, str)):
        return str(given)
    # The comma says that one seed is a list, too.
    listed = [str(seed) for seed in given]
    return f"{listed[0]}..{listed[0]}" if len(listed) == 1 else ",".join(listed)


def vary_texts(given: Vary) -> list[str]:
    """Texts as `--vary` takes them."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{key}={values(key, of)}" for key, of in given.items()]
    if isinstance(given, str):
        return [given]
    return list(given)


def values(key: str, given: str | Iterable[Any]) -> str:
    """The values of a key as `--vary` takes them."""
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
    """A whole number that is not out of range."""
    expected = f"expected a whole number from {least} to {most}"
    try:
        number = operator.index(given)
    except TypeError:
        raise UsageError(f"{option}: found {given!r}, {expected}") from None
    if not least <= number <= most:
        raise UsageError(f"{option}: found {number}, {expected}")
    return number


def seed_number(given: int | None) -> int | None:
    """The seed of a run, as the command takes it."""
    return None if given is None else whole("--seed", given, 0, MOST)


def most_threads(given: int | None) -> int | None:
    """How many threads there may be, as the command takes it."""
    return None if given is None else whole("--threads", given, 1, 65_535)


def folder(given: Path | None) -> str | None:
    """A path as text."""
    return None if given is None else os.fspath(given)


def how(threads: int | None, out: Path | None, force: bool) -> tuple[int | None, str | None, bool]:
    """How to run, as the facade takes it."""
    if force and out is None:
        raise UsageError(
            "--force: replaces what a run writes, and this one writes nothing; name a folder with "
            "--out"
        )
    return most_threads(threads), folder(out), force


def cache_folder(cache: Path | bool) -> str | None:
    """Where runs are kept: a folder that is named has to be one.

    Without the user's own, which is warned of, runs are only not kept.
    """
    if cache is False:
        return None
    at = _native.default_cache() if cache is True else cache
    if at is None:
        return None
    try:
        _native.can_keep(os.fspath(at))
    except UsageError as why:
        if cache is not True:
            raise
        warn([str(why)])
        return None
    return os.fspath(at)
