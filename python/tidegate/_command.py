"""The command `tidegate`."""

import os
import signal
import sys

from tidegate import _native


def main() -> None:
    """Run the command with the program's arguments, and exit with its status."""
    # The command handles signals itself; Python's handler would also raise an exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("TIDEGATE_PYTHON", sys.executable)
    sys.exit(_native.command(sys.argv))
