"""Progress bars and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tidegate.errors import TidegateWarning


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    shell = None if shell is None else shell.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class Bar:
    """A progress bar, if `progress`; `None` shows one in terminals and notebooks."""

    def __init__(self, progress: bool | None) -> None:
        if progress is None:
            progress = sys.stderr.isatty() or _is_notebook()
        self._bar: Any = None
        if progress:
            from tqdm.auto import tqdm

            form = "{percentage:3.0f} % {bar} {elapsed}, {remaining} left{postfix}"
            self._bar = tqdm(total=1.0, bar_format=form, leave=False)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def callback(self) -> Any:
        """The callback, called with completed runs, all runs and the completed share."""
        return None if self._bar is None else self._update

    def _update(self, done: int, runs: int, share: float) -> None:
        if runs > 1:
            self._bar.set_postfix_str(f"{done} of {runs} runs", refresh=False)
        self._bar.update(min(share, 1.0) - self._bar.n)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Drop warnings of this package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TidegateWarning)
        yield


def warn(texts: Iterable[str]) -> None:
    """Raise warnings at the caller of the calling function."""
    for text in texts:
        warnings.warn(text, TidegateWarning, stacklevel=3)
