"""Measure the overhead of Python: CPU time of `tidegate.run` compared with the command.

python scripts/python-overhead.py SCENARIO.toml [--set KEY=VALUE]...

Both use the same build: the command is the one that the package installs. It writes its rows to a
folder; `tidegate.run` keeps them in memory, and its summary as objects. Runs alternate, and medians
are compared. The start-up time of Python is excluded and reported separately.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import tempfile
import time

import tidegate

ROUNDS = 9


def of_children(args: list[str]) -> float:
    """Run a process and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(args, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure, and print one line per quantity."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    command, python, start = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        call = ["tidegate", "run", args.scenario, "--threads", "1", "--force", "--out", folder]
        call += [word for change in args.set for word in ("--set", change)]
        for _ in range(ROUNDS):
            command.append(of_children(call))
            before = time.process_time()
            run = tidegate.run(args.scenario, set=args.set, threads=1, progress=False)
            python.append(time.process_time() - before)
            start.append(of_children(["tidegate", "--version"]))
    rows = len(run.flows)
    print(
        f"{run.summary.engine.packet_hops} packet-hops, {rows} rows; "
        f"CPU seconds, median of {ROUNDS}"
    )
    alone = [with_start - one for with_start, one in zip(command, start, strict=True)]
    for name, values in (("start", start), ("command", alone), ("tidegate.run", python)):
        low, high = min(values), max(values)
        print(f"{name:13}{statistics.median(values):7.3f}  ({low:.3f} to {high:.3f})")
    more = statistics.median(python) - statistics.median(alone)
    print(f"Python adds {more * 1e3:+.0f} ms, {more / statistics.median(alone):+.1%}")


if __name__ == "__main__":
    main()
