"""Scenarios that take a fraction of a second, and protocols by what they need."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import tidegate
from tidegate.results import Run


def names() -> list[str]:
    """Protocols that run on any fabric."""
    return [one.name for one in tidegate.protocols() if "circuit announcements" not in one.needs]


@pytest.fixture
def scenario() -> dict[str, Any]:
    """Two racks, messages with a warm-up, and a flow that never ends."""
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
    """The share of messages in which `slowdown` or `fct_us` is larger than each value it has.

    By the estimate of Kaplan and Meier, as it is defined: a product over the values in order.
    """
    rows = pl.DataFrame(run.flows).filter(pl.col("measured"))
    if label is not None:
        rows = rows.filter(pl.col("label") == label)
    over_us = (run.summary.sim_seconds + run.summary.drain_seconds) * 1e6
    took = over_us - pl.col("start_us")
    bounds = rows.filter(pl.col("fct_us").is_null()).select(
        took if column == "fct_us" else took / pl.col("ideal_us")
    )
    cut = bounds.to_series().to_list()
    known, share, shares = rows[column].drop_nulls().to_list(), 1.0, {}
    for value in sorted(set(known)):
        left = sum(one >= value for one in known) + sum(one >= value for one in cut)
        share *= 1 - known.count(value) / left
        shares[value] = share
    return shares
