"""Kernel TCP over a switch that runs the P4 programs: what the switch writes, and its effect.

python3 scripts/p4_lab.py [--build] [--rate MBITS] [--seconds SECONDS]

It needs root; ip, tc, ethtool, p4c-bm2-ss, simple_switch and simple_switch_CLI in PATH; the program
`tidegate` with the feature `kernel` (TIDEGATE, default target/debug/tidegate), or, with --build,
what builds it there: cargo, clang, pkg-config, libelf and zlib; and all that `tidegate kernel
status` lists. Without one of them it reports SKIPPED. It refuses to run beside loaded controls,
stamped queues, or another network of scripts/kernel-lab.sh.

For each program it makes such a network, sends over the kernel's TCP, and captures packets before
and behind the switch, whose passage is the reference for the telemetry. It prints a table and fails
if a bound is missed. docs/kernel.md has a result.
"""

import argparse
import bisect
import contextlib
import json
import math
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB = str(ROOT / "scripts/kernel-lab.sh")
TIDEGATE = os.environ.get("TIDEGATE", str(ROOT / "target/debug/tidegate"))
FRAME = 1514
# Payload of such a frame, with timestamps and the option of the control.
PAYLOAD = {"tg_poseidon": 1440, "tg_powertcp": 1420, "cubic": 1448}
QUEUE_BYTES = 600_000
SO_TIMESTAMPNS, SO_RCVBUFFORCE, ETH_P_ALL = 35, 33, 3
EXID_DELAY, EXID_FORWARD = 0x7464, 0x7466

# Poseidon's parameters, scaled to the base RTT, and its target in us.
P_US, K_US, MAX_MBPS, MIN_MBPS = 12_000, 600, 2_000, 1
POSEIDON = f"p={P_US}us k={K_US}us m=0.1 min_rate={MIN_MBPS}Mbps max_rate={MAX_MBPS}Mbps".split()
# Two packets a flow; windows may fall below one BDP, which is 100 Mbit/s.
POWERTCP = ["beta=3000B", "max_window=2BDP", "min_rate=1Mbps"]


def target_us(mbps: float) -> float:
    """Poseidon's target delay of a flow with this rate."""
    return K_US + P_US * math.log(MAX_MBPS / mbps) / math.log(MAX_MBPS / MIN_MBPS)


def options(segment: bytes) -> Iterator[tuple[int, bytes]]:
    """Experimental options of a TCP header: identifier and content."""
    at, end = 20, (segment[12] >> 4) * 4
    while at < end and segment[at]:
        if segment[at] == 1:
            at += 1
            continue
        length = segment[at + 1]
        if segment[at] == 253 and length >= 4:
            yield struct.unpack_from("!H", segment, at + 2)[0], segment[at + 4 : at + length]
        at += max(length, 2)


def delay(code: int) -> float:
    """Microseconds of a code of crates/kernel/bpf/delay.h."""
    shift = max((code >> 13) - 1, 0)
    return ((code - (shift << 13)) << shift) * 0.256


def record(word: int) -> tuple[float, float, int, int]:
    """Rate in Mbit/s, time in us modulo 67 ms, bytes sent modulo 4 MiB, bytes of queue."""
    code = word >> 52
    rate = (128 + (code & 127)) * 2 ** (code >> 7) / 128 / 1e3
    return rate, (word >> 32 & 0xFFFFF) * 0.064, (word >> 16 & 0xFFFF) * 64, (word & 0x7FFF) * 128


def capture(seconds: float) -> None:
    """Captures on both ports of the switch, and prints statistics of the packets as JSON."""
    ports = []
    for name in ("a", "b"):
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        port.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        port.bind((name, ETH_P_ALL))
        port.setblocking(False)
        ports.append(port)
    seen: list[list[tuple[float, bytes]]] = [[], []]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        idle = True
        for port, packets in zip(ports, seen, strict=True):
            try:
                packet, extra, _, _ = port.recvmsg(128, 64)
            except BlockingIOError:
                continue
            idle = False
            whole, nanos = struct.unpack("=qq", extra[0][2][:16])
            packets.append((whole * 1e6 + nanos / 1e3, packet))
        if idle:
            time.sleep(0.001)
    # Packets that arrived, by IP identification and sequence number, with the time.
    entered: dict[tuple[bytes, bytes], float] = {}
    # Arrivals in order, and the bytes of all packets up to each.
    times, totals = [0.0], [0]
    for at, packet in seen[0]:
        if packet[12:14] != b"\x08\x00":
            continue
        times.append(at)
        totals.append(totals[-1] + 14 + struct.unpack_from("!H", packet, 16)[0])
        if packet[23] == 6 and len(packet) > 90:
            entered[packet[18:20], packet[38:42]] = at
    passages, rates, clocks, queues, sent = [], [], [], [], []
    # Queues in records less the bytes that arrived during the packet's passage.
    queue_errors = []
    # Stamped delays, each with the passage of its packet.
    stamps: list[tuple[float, float]] = []
    before = None
    for at, packet in seen[1]:
        joined = entered.get((packet[18:20], packet[38:42]))
        if joined is None:
            continue
        passages.append(at - joined)
        for exid, content in options(packet[34:]):
            # 0: no switch has stamped.
            if exid == EXID_DELAY and (code := struct.unpack_from("!H", content)[0]):
                stamps.append((delay(code), at - joined))
            elif exid == EXID_FORWARD and (word := struct.unpack_from("!Q", content)[0]):
                rate, clock, total, queue = record(word)
                rates.append(rate)
                queues.append(queue)
                behind = [totals[bisect.bisect_right(times, of) - 1] for of in (joined, at)]
                queue_errors.append(queue - (behind[1] - behind[0]))
                if before:
                    clocks.append((clock - before[1]) % 67108.864 - (at - before[0]))
                    sent.append((total - before[2]) % (1 << 22))
                before = (at, clock, total)
    print(
        json.dumps(
            {
                "packets": len(passages),
                "passage_us": quartiles(passages),
                "stamps": len(stamps) + len(rates),
                "stamp_us": quartiles([stamp for stamp, _ in stamps]),
                "stamp_less_passage_us": quartiles([stamp - own for stamp, own in stamps]),
                "rate_mbps": quartiles(rates),
                "queue_bytes": quartiles(queues),
                "queue_error_bytes": quartiles(queue_errors),
                "clock_error_us": quartiles(clocks),
                "sent_bytes": ratio(sum(sent), len(sent)),
            }
        )
    )


def quartiles(values: list[float]) -> list[float]:
    """Quartiles. Without values they are no numbers, which are within no bound."""
    if len(values) < 2:
        return [math.nan] * 3
    return [round(q, 2) for q in statistics.quantiles(values, n=4)]


def ratio(part: float, whole: float) -> float:
    """Without a whole it is no number, which is within no bound."""
    return part / whole if whole else math.nan


def netns(name: str, *command: str) -> list[str]:
    """The command in a namespace, before other load on the machine."""
    return ["nice", "-n", "-20", "ip", "netns", "exec", name, *command]


def status() -> dict:
    """Requirements, loaded controls and stamped queues."""
    return json.loads(subprocess.check_output([TIDEGATE, "kernel", "status", "--json"]))


def counters(name: str) -> dict[str, int]:
    """Counters of the control of this protocol."""
    return next(of["counters"] for of in status()["controls"] if of["protocol"] == name)


def checksum_errors() -> int:
    """TCP segments with a wrong checksum at the receiver."""
    lines = subprocess.check_output(netns("tgk-b", "cat", "/proc/net/snmp"), text=True)
    names, values = (line.split() for line in lines.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("InCsumErrors")])


def transfer(control: str, seconds: int, flows: int) -> dict:
    """Sends, and captures during the last third."""
    flow, lab = str(ROOT / "scripts/kernel_flow.py"), str(Path(__file__).resolve())
    sender = subprocess.Popen(
        netns(
            *("tgk-a", sys.executable, flow, "send", "10.77.0.2", "5001"),
            *(control, str(seconds), str(flows)),
        ),
        stdout=subprocess.PIPE,
    )
    time.sleep(seconds * 2 / 3)
    command = netns("tgk-s", sys.executable, lab, "--capture", str(seconds / 6))
    captured = json.loads(subprocess.check_output(command))
    output, _ = sender.communicate()
    return json.loads(output) | captured


def experiment(name: str, rate: int, seconds: int) -> list[tuple[str, str, bool]]:
    """The control beside cubic over the program of its name: measure, value, within the bound."""
    params = POSEIDON if name == "poseidon" else POWERTCP
    up = [LAB, "up", str(rate), "4ms", str(QUEUE_BYTES), str(ROOT / f"p4/{name}.p4")]
    load = [TIDEGATE, "kernel", "load", name, "--rate", f"{rate}Mbps", "--base-rtt", "5ms"]
    load += [word for param in params for word in ("--param", param)]
    # Completed steps are undone, in reverse order.
    with contextlib.ExitStack() as undo:
        subprocess.run(up, check=True, env=os.environ | {"TIDEGATE": TIDEGATE})
        undo.callback(subprocess.run, [LAB, "down"], check=False)
        subprocess.run(load, check=True)
        undo.callback(subprocess.run, [TIDEGATE, "kernel", "unload", name], check=False)
        serve = netns("tgk-b", sys.executable, str(ROOT / "scripts/kernel_flow.py"))
        receiver = undo.enter_context(subprocess.Popen([*serve, "serve", "5001"]))
        undo.callback(receiver.kill)
        time.sleep(1)
        ours = transfer(f"tg_{name}", seconds, 2)
        count, errors = counters(name), checksum_errors()
        cubic = transfer("cubic", seconds, 2)
    return judge(name, rate, ours, cubic, count, errors)


def judge(
    name: str, rate: int, ours: dict, cubic: dict, count: dict[str, int], errors: int
) -> list[tuple[str, str, bool]]:
    """Compares what was measured with what the programs and the laws promise."""
    print(json.dumps({"ours": ours, "cubic": cubic, "counters": count}), file=sys.stderr)
    share, share_cubic = (
        run["median_mbps"] / (rate * PAYLOAD[run["control"]] / FRAME) for run in (ours, cubic)
    )
    written = ratio(ours["stamps"], ours["packets"])
    echoed = ratio(count["stamped"], count["stamped"] + count["unstamped"])
    passage, slow = ours["passage_us"][1], cubic["passage_us"][1]
    rows = [
        ("share of the port", f"{share:.3f}", share > 0.8),
        ("share of the port under cubic", f"{share_cubic:.3f}", True),
        ("packets with telemetry", f"{written:.3f}", written > 0.95),
        ("acknowledgements with telemetry", f"{echoed:.3f}", echoed > 0.95),
        ("segments with a wrong checksum", str(errors), errors == 0),
        ("passage of the switch, median", f"{passage / 1e3:.2f} ms", True),
        ("passage under cubic, median", f"{slow / 1e3:.2f} ms", slow > 3 * passage),
    ]
    if name == "poseidon":
        goal, stamp = target_us(rate / 2), ours["stamp_us"][1]
        low, error, high = ours["stamp_less_passage_us"]
        rows += [
            ("stamped delay, median", f"{stamp / 1e3:.2f} ms", abs(stamp / goal - 1) < 0.3),
            ("target T of the fair share", f"{goal / 1e3:.2f} ms", True),
            (
                "stamp less passage, quartiles",
                f"{low:.0f}, {error:.0f}, {high:.0f} us",
                abs(error) < 0.1 * passage + 200,
            ),
        ]
    else:
        code, queue = ours["rate_mbps"][1], ours["queue_bytes"][1]
        low, error, high = ours["clock_error_us"]
        mean, wrong = ours["sent_bytes"], ours["queue_error_bytes"]
        rows += [
            ("rate in records", f"{code:.1f} Mbit/s", abs(code / rate - 1) < 0.005),
            ("queue in records, median", f"{queue / 1e3:.1f} KB", queue < 12_000),
            (
                "queue of records less arrivals during the passage, quartiles",
                "{:.0f}, {:.0f}, {:.0f} B".format(*wrong),
                # One frame may arrive between the queue and the capture; queues are rounded down.
                abs(wrong[1]) <= FRAME + 128,
            ),
            (
                "clock of records against the capture, quartiles",
                f"{low:.0f}, {error:.0f}, {high:.0f} us",
                abs(error) < 50,
            ),
            ("bytes between records, mean", f"{mean:.0f}", abs(mean / FRAME - 1) < 0.05),
        ]
    return rows


def missing(build: bool) -> list[str]:
    """Tools that are not found."""
    tools = ["ip", "tc", "ethtool", "p4c-bm2-ss", "simple_switch", "simple_switch_CLI"]
    tools += ["cargo", "clang", "pkg-config"] if build else [TIDEGATE]
    lacking = [tool for tool in tools if not shutil.which(tool)]
    if build and "pkg-config" not in lacking:
        libraries = ("libelf", "zlib")
        lacking += [
            of for of in libraries if subprocess.run(["pkg-config", "--exists", of]).returncode
        ]
    return lacking + (["root"] if os.geteuid() else [])


def unmet() -> list[str]:
    """Requirements of the controls that this machine or the program does not meet."""
    try:
        return [of["found"] for of in status()["requirements"] if not of["met"]]
    except subprocess.CalledProcessError as error:
        if error.returncode != 2:
            raise
        return [f"{TIDEGATE} was built without the feature `kernel`"]


def in_use() -> list[str]:
    """Return things that a run would disturb, with the command that removes each."""
    found = status()
    used = [f"{of['name']} (tidegate kernel unload {of['protocol']})" for of in found["controls"]]
    used += [f"stamped queue {of['interface']} (tidegate kernel unload)" for of in found["queues"]]
    spaces = subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()
    names = [line.split()[0] for line in spaces if line.startswith("tgk-")]
    return used + [f"namespace {name} (scripts/kernel-lab.sh down)" for name in names]


def main() -> None:
    """Runs both programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true", help="build target/debug/tidegate first")
    parser.add_argument("--rate", type=int, default=100, help="of the port, in Mbit/s")
    parser.add_argument("--seconds", type=int, default=18, help="of each transfer")
    parser.add_argument("--capture", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.capture:
        return capture(args.capture)
    if lacking := missing(args.build):
        print(f"SKIPPED: not found: {', '.join(lacking)}")
        return None
    if args.build:
        build = ["cargo", "build", "-p", "tidegate-cli", "--features", "kernel"]
        subprocess.run(build, check=True, cwd=ROOT)
    if reasons := unmet():
        print(f"SKIPPED: {'; '.join(reasons)}")
        return None
    if used := in_use():
        sys.exit(f"a run would disturb these; remove them first: {'; '.join(used)}")
    failed = False
    for name in ("poseidon", "powertcp"):
        print(f"p4/{name}.p4, two flows, {args.rate} Mbit/s")
        for measure, value, within in experiment(name, args.rate, args.seconds):
            failed |= not within
            print(f"  {measure:48} {value}{'' if within else '  OUT OF BOUND'}")
    return sys.exit(1) if failed else None


if __name__ == "__main__":
    main()
