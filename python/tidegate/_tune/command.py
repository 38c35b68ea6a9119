"""The command `tidegate tune`: the program passes its options as JSON."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, TypeVar

from tidegate.errors import Error, ScenarioError, TidegateWarning, UsageError

T = TypeVar("T")


def main(text: str) -> int:
    """Run a search, print its table, and return the exit status."""
    from tidegate._tune.files import Interrupted, content
    from tidegate._tune.run import tune

    options: dict[str, Any] = json.loads(text)
    as_json = options.pop("json")
    scenario, protocols = options.pop("scenario"), options.pop("protocols")
    objective = options.pop("objective")
    options["ranges"] = _once("--range", [_range(one) for one in options["ranges"]])
    options["over"] = _once("--over", [_values(one) for one in options["over"]])
    if options["quiet"]:
        options["progress"] = False
        warnings.simplefilter("ignore", TidegateWarning)
    del options["quiet"]
    warnings.showwarning = _warn
    # The program starts the interpreter with the signal's default action: imports take a second.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        study = tune(scenario, protocols, objective, **options)
    except KeyboardInterrupt as why:
        # Before the search begins, the folder may hold one that this call cannot continue.
        remedy = _remedy(options) if isinstance(why, Interrupted) else ""
        print(f"tidegate: interrupted{remedy}", file=sys.stderr)
        return 130
    except (ScenarioError, UsageError) as why:
        print(f"tidegate: {why}", file=sys.stderr)
        return 2
    except Error as why:
        print(f"tidegate: {why}", file=sys.stderr)
        return 1
    print(content(study).rstrip() if as_json else study)
    if study.folder is not None and not as_json:
        print(f"\nScenarios with these parameters, and a page, are in {study.folder}")
    return 0


def _remedy(options: dict[str, Any]) -> str:
    """Return how an interrupted search continues; empty if nothing is left of it."""
    from tidegate._tune.files import JOURNAL, RESULT, SO_FAR

    folder = Path(options["out"] or "")
    # With its result, the search is complete.
    if options["out"] is None or not (folder / JOURNAL).exists() or (folder / RESULT).exists():
        return ""
    holds = f"{folder} holds the best so far, and " if (folder / SO_FAR).exists() else ""
    return f"; {holds}the same call{' without --force' if options['force'] else ''} continues"


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _range(text: str) -> tuple[str, tuple[str, str]]:
    key, _, ends = text.partition("=")
    low, between, high = ends.partition("..")
    if not between or "." not in key:
        _refuse(
            f"--range: found {text!r}, expected PROTOCOL.PARAMETER=LOW..HIGH, such as "
            "poseidon.p=10us..80us"
        )
    return key, (low, high)


def _once(option: str, pairs: list[tuple[str, T]]) -> dict[str, T]:
    """Return pairs by key. A key that occurs twice is an error: one of them would be lost."""
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        _refuse(f"{option}: {twice} occurs twice, expected once")
    return dict(pairs)


def _value(text: str) -> bool | float | str:
    """Return a number or a flag, or a text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, (bool, int, float)) else text


def _values(text: str) -> tuple[str, list[bool | float | str]]:
    key, between, values = text.partition("=")
    if not between or not values:
        _refuse(f"--over: found {text!r}, expected KEY=VALUE,VALUE, such as traffic.0.load=0.5,0.8")
    return key, [_value(one) for one in values.split(",")]


def _refuse(message: str) -> None:
    print(f"tidegate: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
