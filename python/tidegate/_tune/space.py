"""The searched ranges, from the catalog of protocols."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate import _native
from tidegate.errors import UsageError
from tidegate.results import Parameter, Protocol

AROUND = 8.0
"""Without a range, a parameter is searched from its default over this to its default times this."""

_FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Multiples of a tuned value at which the objective is measured again, one parameter at a time."""

_DECADE = 10.0
"""Ranges that span at least this factor are searched in the logarithm."""

_SHARED = 4
"""A parameter that at least so many protocols have belongs to the transport below them (timeouts,
header sizes, acknowledgements), and is searched only if named."""

_NUMERIC = ("integer", "number", "rate", "size", "time")
"""Kinds of parameters that are searched by default; flags and choices are searched if named."""


@dataclass(frozen=True)
class Axis:
    """A searched parameter. Values are in `unit`, or are indices of `choices`."""

    name: str
    low: float
    high: float
    default: float
    unit: str
    whole: bool
    choices: tuple[bool | str, ...] = ()
    given: int | float | str | None = None
    """The default as the scenario or the catalog has it; `None` if it is a word."""

    @property
    def is_log(self) -> bool:
        """Whether the range is searched in the logarithm."""
        return self.low > 0 and self.high / self.low >= _DECADE

    def text(self, value: float) -> int | float | str:
        """Return a value as in a scenario: the default as given, others with four digits."""
        if self.choices:
            return self.choices[round(value)]
        if value == self.default and self.given is not None:
            return self.given
        if self.whole:
            return round(value)
        short = float(f"{value:.4g}")
        if not self.unit:
            return short
        return f"{short:.12f}".rstrip("0").rstrip(".") + self.unit

    def around(self, value: float) -> list[float]:
        """Return a value and its multiples within the range, or all choices, in their order."""
        if self.choices:
            return [float(index) for index in range(len(self.choices))]
        near = {min(max(value * factor, self.low), self.high) for factor in _FACTORS}
        return sorted({value, *(float(round(one)) if self.whole else one for one in near)})


def magnitude(value: Any) -> tuple[float, str] | None:
    """Return the number and the unit of a value; `None` if it is something else or infinite.

    The extension reads no signs: quantities with a unit are never negative.
    """
    text = str(value)
    found = _native.magnitude(text.removeprefix("-"))
    if found is None or not math.isfinite(found[0]) or (found[1] and text.startswith("-")):
        return None
    return (-found[0], "") if text.startswith("-") else found


def _number(one: Parameter, value: Any, place: str) -> tuple[float, str]:
    """Convert a value of a parameter to a number and its unit."""
    found = magnitude(value)
    if found is None:
        expected = one.unit or "a number"
        raise UsageError(f"{place}: found {value!r}, expected {expected}")
    return found


def _limit(value: float | str | None, unit: str, missing: float) -> float:
    """Return a limit of the catalog in a unit; limits in other units do not apply."""
    found = None if value is None else magnitude(value)
    return found[0] if found is not None and found[1] == unit else missing


def _axis(one: Parameter, given: tuple[Any, Any] | None, place: str) -> Axis | None:
    """Return the axis of a parameter; `None` if its default has no range, or one value only."""
    choices = (False, True) if one.kind == "flag" else one.choices
    if choices and given is not None:
        raise UsageError(f"{place}: has choices and no range: name it with --params")
    if choices:
        of = choices.index(one.default)
        return Axis(one.name, 0, len(choices) - 1, of, "", whole=True, choices=choices)
    if one.kind not in _NUMERIC:
        raise UsageError(f"{place}: a {one.kind} cannot be searched: choose another parameter")
    # `None` if the default is a word, such as `fabric`.
    start = magnitude(one.default)
    if given is not None:
        (low, unit), (high, other) = (_number(one, end, place) for end in given)
        if one.unit is not None and "" in (unit, other):
            raise UsageError(
                f"{place}: found {given[0]}..{given[1]}, expected two values with a unit: "
                f"{one.unit}"
            )
        if unit != other or not low < high:
            raise UsageError(
                f"{place}: found {given[0]}..{given[1]}, expected a smaller and a "
                "larger value in one unit"
            )
        least, most = _limit(one.min, unit, -math.inf), _limit(one.max, unit, math.inf)
        if low < least or high > most:
            raise UsageError(
                f"{place}: found {given[0]}..{given[1]}, expected a range within "
                f"{one.min} and {one.max}"
            )
        if start is not None and (start[1] != unit or not low <= start[0] <= high):
            raise UsageError(
                f"{place}: found {given[0]}..{given[1]}, expected a range that "
                f"includes {one.default}, the value of the scenario: it is the first candidate"
            )
        default = low if start is None else start[0]
    elif start is not None and start[0] > 0:
        default, unit = start
        low = max(_limit(one.min, unit, 0.0), default / AROUND)
        high = min(_limit(one.max, unit, math.inf), default * AROUND)
    else:
        return None
    is_whole = one.kind == "integer"
    if is_whole and math.isfinite(high):
        low, high = math.ceil(low), math.floor(high)
    own = None if start is None else one.default
    return Axis(one.name, low, high, default, unit, is_whole, given=own) if low < high else None


def axes(
    protocol: Protocol,
    catalog: Iterable[Protocol],
    named: Iterable[str] | None,
    ranges: Mapping[str, tuple[Any, Any]],
    present: Mapping[str, Any],
) -> list[Axis]:
    """Return the axes of a protocol: its own numeric parameters, or the `named` ones of any kind.

    Names and the keys of `ranges` are `protocol.parameter`. `present` has the values of the
    scenario, which replace the defaults of the catalog.
    """
    uses = Counter(one.name for other in catalog for one in other.parameters)
    own = {
        one.name: replace(one, default=present.get(one.name, one.default))
        for one in protocol.parameters
    }
    wanted = {
        name.partition(".")[2]
        for name in [*(named or ()), *ranges]
        if name.partition(".")[0] == protocol.name
    }
    unknown = sorted(wanted - own.keys())
    if unknown:
        name = f"{protocol.name}.{unknown[0]}"
        option = "--range" if name in ranges else "--params"
        raise UsageError(f"{option}: {name}: unknown parameter; expected one of {', '.join(own)}")
    chosen = [
        one
        for one in own.values()
        if one.name in wanted
        or (named is None and one.kind in _NUMERIC and uses[one.name] < _SHARED)
    ]
    found = []
    for one in chosen:
        name = f"{protocol.name}.{one.name}"
        given = ranges.get(name)
        place = f"--params: {name}" if given is None else f"--range: {name}"
        axis = _axis(one, given, place)
        if axis is not None:
            found.append(axis)
        elif given is not None:
            raise UsageError(
                f"{place}: found {given[0]}..{given[1]}, expected at least two whole numbers"
            )
        elif one.name in wanted:
            raise UsageError(
                f"{place}: it has no range around its default {one.default}: add "
                f"--range {name}=LOW..HIGH, or choose another parameter"
            )
    return found
