"""Fixtures: short scenarios, and protocols by their requirements."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import tidegate
from tidegate.results import Run


def names() -> list[str]:
    """Return protocols that run on any fabric."""
    return [one.name for one in tidegate.protocols() if "circuit announcements" not in one.needs]


@pytest.fixture
def scenario() -> dict[str, Any]:
    """Two racks, with warm-up, messages, and an unbounded flow."""
    return {
        "name": "two racks",
        "seed": 1,
        "duration": "1ms",
        "warmup": "200us",
        "drain": "2ms",
        "fabric": {"kind": "leaf-spine", "racks": 2, "hosts_per_rack": 4, "spines": 2},
        "transport": {"protocol": names()[0]},
        "flows": [{"src": "h0", "dst": "h5", "label": "long"}],
        "traffic": [{"kind": "poisson", "label": "search", "sizes": "websearch", "load": 0.4}],
        "output": {"timeseries": "20us"},
    }


def larger(run: Run, column: str, label: str | None = None) -> dict[float, float]:
    """Return the share of messages with a larger `slowdown` or `fct_us` than each value.

    Computes the Kaplan-Meier estimate by its definition: a product over the sorted values.
    Slowdowns have one estimate per number of digits of the size: up to three, four and so on.
    """
    rows = pl.DataFrame(run.flows).filter(pl.col("measured"))
    if label is not None:
        rows = rows.filter(pl.col("label") == label)
    over_us = (run.summary.sim_seconds + run.summary.drain_seconds) * 1e6
    known: dict[int, list[float]] = {}
    cut: dict[int, list[float]] = {}
    for row in rows.iter_rows(named=True):
        digits = min(max(len(str(row["size_bytes"])), 3), 8) if column == "slowdown" else 0
        if row["fct_us"] is not None:
            known.setdefault(digits, []).append(row[column])
        else:
            took = over_us - row["start_us"]
            cut.setdefault(digits, []).append(took / (row["ideal_us"] if digits else 1))
    shares = dict.fromkeys(sorted(one for ones in known.values() for one in ones), 1.0)
    for digits in known:
        ended, open_, share = known[digits], cut.get(digits, []), 1.0
        weight = (len(ended) + len(open_)) / len(rows)
        for value in sorted(set(ended)):
            left = sum(one >= value for one in ended) + sum(one >= value for one in open_)
            less = share * ended.count(value) / left
            share -= less
            for beyond in shares:
                shares[beyond] -= weight * less if beyond >= value else 0
    return shares
