"""A TCP transfer under a named congestion control, and what it measures.

python3 scripts/kernel_flow.py serve PORT
python3 scripts/kernel_flow.py send HOST PORT CONTROL SECONDS [FLOWS]

The sender prints JSON: mean goodput of each flow; the mean of their sum, and its median over
quarters of a second, which other load on the machine disturbs less; and the median of each flow's
smoothed RTT and window as the kernel reports them. The first third of the time does not count.
"""

import itertools
import json
import select
import socket
import statistics
import struct
import sys
import time

TCP_INFO = 11
# Offsets in struct tcp_info: smoothed RTT in us, window in packets, acknowledged bytes.
SRTT, CWND, ACKED = 68, 80, 120


def serve(port: int) -> None:
    """Receives and discards everything."""
    listener = socket.create_server(("", port), backlog=64)
    readers: list[socket.socket] = [listener]
    buffer = bytearray(1 << 20)
    while True:
        for ready in select.select(readers, [], [])[0]:
            if ready is listener:
                readers.append(listener.accept()[0])
            elif not ready.recv_into(buffer):
                readers.remove(ready)
                ready.close()


def info(flow: socket.socket) -> tuple[int, int, int]:
    """Smoothed RTT in us, window in packets, acknowledged bytes."""
    raw = flow.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 232)
    srtt, cwnd = struct.unpack_from("=I", raw, SRTT)[0], struct.unpack_from("=I", raw, CWND)[0]
    return srtt, cwnd, struct.unpack_from("=Q", raw, ACKED)[0]


def connect(host: str, port: int, control: str) -> socket.socket:
    """Connects under a control. A receiver that starts at the same time has two seconds."""
    patience = time.monotonic() + 2
    while True:
        flow = socket.socket()
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        try:
            flow.connect((host, port))
            return flow
        except ConnectionRefusedError:
            flow.close()
            if time.monotonic() > patience:
                raise
            time.sleep(0.05)


def send(host: str, port: int, control: str, seconds: float, count: int) -> None:
    """Sends over `count` connections for some seconds."""
    flows = []
    for _ in range(count):
        flow = connect(host, port, control)
        flow.setblocking(False)
        flows.append(flow)
    data = bytes(1 << 16)
    start = time.monotonic()
    warm, end = start + seconds / 3, start + seconds
    before: list[int] = []
    began = ended = start
    samples: list[list[tuple[int, int]]] = [[] for _ in flows]
    # Time and acknowledged bytes of all flows.
    progress: list[tuple[float, int]] = []
    sampled = start
    while (now := time.monotonic()) < end:
        if now >= warm and not before:
            before, began = [info(flow)[2] for flow in flows], now
        if before and (not progress or now - progress[-1][0] > 0.25):
            progress.append((now, sum(info(flow)[2] for flow in flows)))
        if before and now - sampled > 0.01:
            sampled = now
            for flow, seen in zip(flows, samples, strict=True):
                seen.append(info(flow)[:2])
        for flow in select.select([], flows, [], 0.01)[1]:
            flow.send(data)
    after, ended = [info(flow)[2] for flow in flows], time.monotonic()
    used = flows[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    rates = [(b - a) * 8e-6 / (ended - began) for a, b in zip(before, after, strict=True)]
    pairs = itertools.pairwise(progress)
    quarters = [(b - a) * 8e-6 / (until - since) for (since, a), (until, b) in pairs]
    print(
        json.dumps(
            {
                "control": used.split(b"\0")[0].decode(),
                "goodput_mbps": [round(rate, 2) for rate in rates],
                "total_mbps": round(sum(rates), 2),
                "median_mbps": round(statistics.median(quarters), 2),
                "srtt_us": [statistics.median(s for s, _ in seen) for seen in samples],
                "cwnd": [statistics.median(c for _, c in seen) for seen in samples],
            }
        )
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
    else:
        host, port, control, seconds = sys.argv[2:6]
        count = int(sys.argv[6]) if len(sys.argv) > 6 else 1
        send(host, int(port), control, float(seconds), count)
