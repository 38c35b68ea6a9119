"""Options of a search, and why it refuses them or skips a protocol."""

from types import SimpleNamespace

import pytest

from tidegate._tune import goals
from tidegate._tune.search import lacking

pytest.importorskip("optuna")
pytest.importorskip("scipy")


def test_a_seed_without_a_value_is_named():
    def metrics(*values):
        return [SimpleNamespace(label="", metric="fct_p99_us", min_bytes=None, values=values)]

    goal, over = goals.objective("min fct_p99"), {"traffic.0.load": [0.3, 0.6]}
    assert lacking([goal], [metrics(1.0, 2.0), metrics(3.0, 4.0)], over) is None
    why = lacking([goal], [metrics(1.0, 2.0), metrics(3.0, None)], over)
    assert why.startswith("--over traffic.0.load=0.6: fct_p99: seed 2 has no value: ")
    assert why.endswith("increase duration or drain")


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("drops", "drops"),
        ("goodput", "goodput_gbps"),
        ("fct_p99", "fct_p99_us"),
        ("queue_max", "queue_max_bytes"),
        ("goodput", "goodput_total_gbps"),
        ("fct", "fct_mean_us"),
    ],
)
def test_names_of_metrics_omit_units(text, metric):
    one = SimpleNamespace(label="", metric=metric, min_bytes=None)
    assert goals.objective(f"min {text}").of.among([one]) is one
    assert goals.objective(f"min {text}x").of.among([one]) is None
