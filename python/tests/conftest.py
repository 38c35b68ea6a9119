"""Scenarios that take a fraction of a second, and protocols by what they need."""

from __future__ import annotations

from typing import Any

import pytest

import tidegate


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
