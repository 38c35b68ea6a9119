"""Exceptions. Messages are those of the command and name its options."""


class Error(Exception):
    """Base class of all errors of tidegate. Ctrl-C raises `KeyboardInterrupt`, as usual."""


class ScenarioError(Error):
    """A scenario or an override is invalid; the message names place, value and allowed values.

    Nothing was run or written.
    """


class UsageError(Error):
    """An argument is invalid, a folder already holds results, or another run writes to it."""


class RunError(Error):
    """A run failed, or results cannot be read."""


class OutputError(Error):
    """Results or a capture cannot be written."""


class TidegateWarning(UserWarning):
    """Something is permitted but probably a mistake."""
