"""Types of the extension module."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeAlias, final

from typing_extensions import CapsuleType, Self

from tidegate._arguments import SweepRequest

__all__ = [
    "Table",
    "build",
    "can_keep",
    "command",
    "compare",
    "default_cache",
    "figures",
    "forecast",
    "ideal_paths_warning",
    "key_words",
    "limits",
    "load",
    "magnitude",
    "make_runs",
    "metrics",
    "missing_runs",
    "palette",
    "portable",
    "protocols",
    "reproduce",
    "run",
    "run_seeds",
    "schema",
    "sweep",
    "toml_document",
    "toml_value",
    "versions",
    "words",
]

_Scenario: TypeAlias = tuple[str, str]
_Threads: TypeAlias = tuple[int | None, int | None]
_How: TypeAlias = tuple[_Threads, str | None, bool]
_Kept: TypeAlias = tuple[_Threads, str | None]
_Progress: TypeAlias = Callable[[int, int, float], object] | None
_Tables: TypeAlias = list[tuple[int, str, Table]]

@final
class Table:
    def __new__(cls, of: bytes | str | PathLike[str]) -> Self: ...
    def __reduce__(self) -> tuple[type[Self], tuple[bytes | Path]]: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

def build() -> str: ...
def can_keep(folder: str) -> None: ...
def command(args: list[str]) -> int: ...
def compare(
    scenario: _Scenario,
    protocols: list[str],
    set: list[str],
    seed: int | None,
    how: _How,
    progress: _Progress,
) -> tuple[str, list[str], _Tables]: ...
def default_cache() -> Path | None: ...
def figures(what: str | None) -> str: ...
def forecast(request: SweepRequest, how: _Kept) -> str: ...
def ideal_paths_warning(scenario: _Scenario, sets: list[list[str]]) -> str | None: ...
def key_words(key: str) -> str: ...
def limits(metric: str) -> tuple[float, float]: ...
def load(scenario: _Scenario, set: list[str], seed: int | None) -> str: ...
def magnitude(text: str) -> tuple[float, str] | None: ...
def make_runs(request: SweepRequest, how: _Kept, runs: list[int]) -> None: ...
def metrics() -> list[str]: ...
def missing_runs(request: SweepRequest, how: _Kept) -> list[int]: ...
def palette() -> list[str]: ...
def portable(
    scenario: _Scenario, set: list[str], folder: str
) -> tuple[str, list[tuple[str, Path]]]: ...
def protocols() -> str: ...
def reproduce(
    what: str | None,
    quick: bool,
    sensitivity: bool,
    how: _How,
    cache: str | None,
    progress: _Progress,
) -> str: ...
def run(
    scenario: _Scenario,
    set: list[str],
    seed: int | None,
    how: _How,
    pcap: tuple[str, list[str]] | None,
    progress: _Progress,
) -> tuple[str, _Tables]: ...
def run_seeds(
    scenario: _Scenario,
    protocols: list[str] | None,
    baseline: str | None,
    set: list[str],
    seeds: str,
    how: _How,
    progress: _Progress,
) -> str: ...
def schema() -> str: ...
def sweep(
    request: SweepRequest, how: _Kept, out: str | None, force: bool, progress: _Progress
) -> tuple[str, int, Table]: ...
def toml_document(json: str) -> str: ...
def toml_value(json: str) -> str: ...
def versions() -> tuple[str, str, int]: ...
def words(metric: str) -> str: ...
