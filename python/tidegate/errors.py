"""What can go wrong. Messages are those of the command, options in its spelling."""


class Error(Exception):
    """Whatever tidegate raises; Ctrl-C alone is a `KeyboardInterrupt`, as everywhere."""


class ScenarioError(Error):
    """A scenario is wrong, or what was to be changed in it: where, what was found, what is allowed.

    Nothing has run and nothing is written.
    """


class UsageError(Error):
    """An argument is wrong, a folder holds results already, or somebody else writes to it now."""


class RunError(Error):
    """A run failed, or results cannot be read."""


class OutputError(Error):
    """Results or a capture cannot be written."""


class TidegateWarning(UserWarning):
    """Something is allowed and probably not meant."""
