"""Generates storage.csv, a synthetic list of flows of a small storage cluster.

The list is not a measurement. It has the form that a flow exporter would write for twelve clients
(10.0.1.x) and twelve storage servers (10.0.2.x) at 25 Gbit/s:

* Clients write and read objects. Sizes are log-normal with a median of 24 KB, at most 8 MB. Starts
  are Poisson, and three of the servers are twice as popular as the others.
* Every 4 ms on average, a client reads a stripe: ten servers send 64 KB each within 20 us.
* Completion times are the time at 25 Gbit/s, 15 us, and a log-normal delay. Replies of a stripe
  share the client's link.

The same seed gives the same bytes: python3 storage.py > storage.csv
"""

import random

SEED = 7
DURATION_US = 250_000
CLIENTS = [f"10.0.1.{i}" for i in range(1, 13)]
SERVERS = [f"10.0.2.{i}" for i in range(1, 13)]
POPULARITY = [2 if i < 3 else 1 for i in range(len(SERVERS))]
LINK_BYTES_PER_US = 25e9 / 8 / 1e6
OBJECTS_PER_US = 0.011
STRIPE_EVERY_US = 4000
STRIPE_BYTES = 64_000


def main():
    """Prints the list."""
    rng = random.Random(SEED)
    flows = []

    def add(start, src, dst, size, sharing=1):
        delay = 15 + rng.lognormvariate(2.0, 0.8)
        fct = size * sharing / LINK_BYTES_PER_US + delay
        flows.append((start, src, dst, size, fct))

    now = 0.0
    while (now := now + rng.expovariate(OBJECTS_PER_US)) < DURATION_US:
        client, server = rng.choice(CLIENTS), rng.choices(SERVERS, POPULARITY)[0]
        size = min(8_000_000, max(200, round(rng.lognormvariate(10.1, 1.3))))
        is_read = rng.random() < 0.7
        src, dst = (server, client) if is_read else (client, server)
        add(now, src, dst, size)
    now = 0.0
    while (now := now + rng.expovariate(1 / STRIPE_EVERY_US)) < DURATION_US:
        client = rng.choice(CLIENTS)
        for server in rng.sample(SERVERS, 10):
            add(now + rng.uniform(0, 20), server, client, STRIPE_BYTES, rng.uniform(3, 10))
    print("flowStartMicroseconds,sourceIPv4Address,destinationIPv4Address,octetDeltaCount,fct_us")
    for start, src, dst, size, fct in sorted(flows):
        print(f"{start:.1f},{src},{dst},{size},{fct:.1f}")


main()
