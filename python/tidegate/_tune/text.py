"""Tables and notes of a study as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

EACH = "{each}"
"""Place in a note for a word that it has only if it is about several protocols."""


def shared(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Return each text once, with the protocols that it is about."""
    names: dict[str, list[str]] = {}
    for name, text in notes:
        names.setdefault(text, []).append(name)
    return [
        f"{', '.join(own)}: {text.replace(EACH, ' each' if len(own) > 1 else '')}"
        for text, own in names.items()
    ]


def listed(values: Mapping[str, int | float | str]) -> str:
    """Return parameters as in a scenario."""
    shown = (
        (name, str(one).lower() if isinstance(one, bool) else one) for name, one in values.items()
    )
    return ", ".join(f"{name} = {one}" for name, one in shown)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def grouped(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the keys of each value, in order."""
    found: dict[str, list[str]] = {}
    for key, value in texts.items():
        found.setdefault(value, []).append(key)
    return found
