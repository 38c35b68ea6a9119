"""Simulate and compare datacenter transports.

`run` a scenario, `compare` protocols, `sweep` values of its keys, `tune` parameters, `reproduce`
papers. Results are
dataclasses (`tidegate.results`), with tables for polars, pandas, pyarrow and DuckDB. The guide is
docs/python.md.
"""

from importlib.metadata import version as _version

from tidegate._facade import (
    compare,
    figures,
    load,
    protocols,
    read,
    reproduce,
    run,
    schema,
)
from tidegate._sweeps import forecast, sweep
from tidegate._tune.run import tune
from tidegate.errors import (
    Error,
    OutputError,
    RunError,
    ScenarioError,
    TidegateWarning,
    UsageError,
)

__version__ = _version("tidegate")

__all__ = [
    "Error",
    "OutputError",
    "RunError",
    "ScenarioError",
    "TidegateWarning",
    "UsageError",
    "__version__",
    "compare",
    "figures",
    "forecast",
    "load",
    "protocols",
    "read",
    "reproduce",
    "run",
    "schema",
    "sweep",
    "tune",
]
