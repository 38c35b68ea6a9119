"""The command `tidegate`."""

import signal
import sys

from tidegate import _native


def main() -> None:
    """Do what the arguments ask for, and exit with the command's status."""
    # The command takes the signals itself; Python's own handler would add its exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.command(sys.argv))
