"""Colours of lines that readers can see on light and on dark backgrounds, as in reports.

The script of reports has the same rules, in crates/papers/src/report/page/data.js. A list of
colours, crates/cli/tests/report/colors.json, holds both to the same results.
"""

from __future__ import annotations

from collections.abc import Iterable

WHITE = "#ffffff"
NIGHT = "#16181c"
"""Light and dark backgrounds."""

_CONTRAST = 3.0
"""Least contrast of a line with its background, as WCAG 2 requires of graphics."""


def on_white(color: str, earlier: int = 0) -> str:
    """Return the colour of a line on white, darker after `earlier` lines of the same protocol.

    A pale colour is darkened first. Then each earlier line, at most two, counts for a quarter of
    the way to black.
    """
    share = 0.25 * min(earlier, 2)
    return _hex(_round((1 - share) * part) for part in _channels(_legible(color, WHITE)))


def on_dark(color: str) -> str:
    """Return a colour for a dark background: a dark line is lightened, but keeps its hue."""
    if _luminance(color) < 0.12:
        channels = _channels(color)
        most = max(1, *channels)
        color = _hex(_round(0.75 * 170 * part / most + 0.25 * 255) for part in channels)
    return _legible(color, NIGHT)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _legible(color: str, ground: str) -> str:
    """Return the nearest colour with enough contrast with a background."""
    end = 0 if _luminance(ground) > 0.5 else 255
    for step in range(100):
        found = _hex(_round(part + (end - part) * step / 100) for part in _channels(color))
        if contrast(found, ground) >= _CONTRAST:
            return found
    return WHITE if end else "#000000"


def _luminance(color: str) -> float:
    shares = [part / 255 for part in _channels(color)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(color: str) -> list[int]:
    return [int(color[at : at + 2], 16) for at in (1, 3, 5)]


def _hex(channels: Iterable[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in channels)


def _round(value: float) -> int:
    """Round halves up, as JavaScript does."""
    return int(value + 0.5)
