"""Kernel TCP over a switch that runs the P4 programs: what the switch writes, and its effect.

python3 scripts/p4_lab.py [--rate MBITS] [--seconds SECONDS]

It needs root, p4c-bm2-ss, simple_switch and simple_switch_CLI in PATH, and the program `tidegate`
with the feature `kernel` (TIDEGATE, default target/debug/tidegate). Without one of them it reports
SKIPPED. For each program it makes the network of scripts/kernel-lab.sh, sends over the kernel's
TCP, and captures packets before and behind the switch, whose passage is the reference for the
telemetry. It prints a table and fails if a bound is missed. docs/kernel.md has a result.
"""

import argparse
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
TIDEGATE = os.environ.get("TIDEGATE", str(ROOT / "target/debug/tidegate"))
FRAME = 1514
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
    passages, stamps, rates, clocks, queues, sent = [], [], [], [], [], []
    arrivals = []
    for at, packet in seen[0]:
        if packet[12:14] == b"\x08\x00" and packet[23] == 6 and len(packet) > 90:
            entered[packet[18:20], packet[38:42]] = at
            arrivals.append(at)
    arrivals.sort()
    left, before, first = 0, None, None
    for at, packet in seen[1]:
        joined = entered.get((packet[18:20], packet[38:42]))
        if joined is None:
            continue
        left += 1
        passages.append(at - joined)
        for exid, content in options(packet[34:]):
            if exid == EXID_DELAY:
                stamps.append(delay(struct.unpack_from("!H", content)[0]))
            elif exid == EXID_FORWARD:
                rate, clock, total, queue = record(struct.unpack_from("!Q", content)[0])
                rates.append(rate)
                queues.append(queue)
                if before:
                    clocks.append((clock - before[1]) % 67108.864 - (at - before[0]))
                    sent.append((total - before[2]) % (1 << 22))
                before = (at, clock, total)
        first = first or at
    print(
        json.dumps(
            {
                "packets": left,
                "passage_us": quartiles(passages),
                "stamps": len(stamps) + len(rates),
                "stamp_us": quartiles(stamps),
                "stamp_less_passage_us": quartiles(
                    [s - p for s, p in zip(stamps, passages, strict=False)]
                ),
                "rate_mbps": quartiles(rates),
                "queue_bytes": quartiles(queues),
                "clock_error_us": quartiles(clocks),
                "sent_bytes": sum(sent) / max(len(sent), 1),
            }
        )
    )


def quartiles(values: list[float]) -> list[float]:
    """Quartiles, or nothing without values."""
    return [round(q, 2) for q in statistics.quantiles(values, n=4)] if len(values) > 1 else []


def netns(name: str, *command: str) -> list[str]:
    """The command in a namespace, before other load on the machine."""
    return ["nice", "-n", "-20", "ip", "netns", "exec", name, *command]


def counters() -> dict[str, int]:
    """Counters of the control that is loaded."""
    status = json.loads(subprocess.check_output([TIDEGATE, "kernel", "status", "--json"]))
    return status["controls"][0]["counters"] if status["controls"] else {}


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
    lab = str(ROOT / "scripts/kernel-lab.sh")
    up = [lab, "up", str(rate), "4ms", str(QUEUE_BYTES), str(ROOT / f"p4/{name}.p4")]
    receiver = None
    try:
        subprocess.run(up, check=True, env=os.environ | {"TIDEGATE": TIDEGATE})
        load = [TIDEGATE, "kernel", "load", name, "--rate", f"{rate}Mbps", "--base-rtt", "5ms"]
        load += [word for param in params for word in ("--param", param)]
        subprocess.run(load, check=True)
        serve = netns("tgk-b", sys.executable, str(ROOT / "scripts/kernel_flow.py"))
        receiver = subprocess.Popen([*serve, "serve", "5001"])
        time.sleep(1)
        ours = transfer(f"tg_{name}", seconds, 2)
        count, errors = counters(), checksum_errors()
        cubic = transfer("cubic", seconds, 2)
    finally:
        if receiver:
            receiver.kill()
        subprocess.run([TIDEGATE, "kernel", "unload"], check=False)
        subprocess.run([lab, "down"], check=False)
    return judge(name, rate, ours, cubic, count, errors)


def judge(
    name: str, rate: int, ours: dict, cubic: dict, count: dict[str, int], errors: int
) -> list[tuple[str, str, bool]]:
    """Compares what was measured with what the programs and the laws promise."""
    print(json.dumps({"ours": ours, "cubic": cubic, "counters": count}), file=sys.stderr)
    full = rate * 1440 / FRAME
    share = ours["median_mbps"] / full
    echoed = count["stamped"] / (count["stamped"] + count["unstamped"])
    passage, slow = ours["passage_us"][1], cubic["passage_us"][1]
    rows = [
        ("share of the port", f"{share:.3f}", share > 0.8),
        ("packets with telemetry", f"{ours['stamps'] / ours['packets']:.3f}", True),
        ("acknowledgements with telemetry", f"{echoed:.3f}", echoed > 0.95),
        ("segments with a wrong checksum", str(errors), errors == 0),
        ("passage of the switch, median", f"{passage / 1e3:.2f} ms", True),
        ("the same under cubic", f"{slow / 1e3:.2f} ms", slow > 3 * passage),
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
        mean = ours["sent_bytes"]
        rows += [
            ("rate in records", f"{code:.1f} Mbit/s", abs(code / rate - 1) < 0.005),
            ("queue in records, median", f"{queue / 1e3:.1f} KB", queue < 12_000),
            (
                "clock of records against the capture, quartiles",
                f"{low:.0f}, {error:.0f}, {high:.0f} us",
                abs(error) < 50,
            ),
            ("bytes between records, mean", f"{mean:.0f}", abs(mean / FRAME - 1) < 0.05),
        ]
    return rows


def main() -> None:
    """Runs both programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=100, help="of the port, in Mbit/s")
    parser.add_argument("--seconds", type=int, default=18, help="of each transfer")
    parser.add_argument("--capture", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.capture:
        return capture(args.capture)
    missing = [
        tool
        for tool in ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI", TIDEGATE)
        if not shutil.which(tool)
    ]
    if os.geteuid():
        missing.append("root")
    if missing:
        print(f"SKIPPED: not found: {', '.join(missing)}")
        return None
    failed = False
    for name in ("poseidon", "powertcp"):
        print(f"p4/{name}.p4, two flows, {args.rate} Mbit/s")
        for measure, value, within in experiment(name, args.rate, args.seconds):
            failed |= not within
            print(f"  {measure:48} {value}{'' if within else '  OUT OF BOUND'}")
    return sys.exit(1) if failed else None


if __name__ == "__main__":
    main()
