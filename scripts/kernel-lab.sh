#!/usr/bin/env bash
# A network for docs/kernel.md in namespaces of its own, as root:
#
#   tgk-a  eth0 -> a  bridge  q0 -> q1  bridge  b -> eth0  tgk-b
#          eth1    \_________ tgk-s ____________/    eth1
#             ^------- a    switch (tgk-d)    b <------'
#
# q0 is a port of a Linux box: a queue with the rate RATE (tbf). q0 and q1 are the ends of a veth
# pair inside the box, which stand for the link; a packet's delay is known at q1. Acknowledgements
# return through a software switch that only adds DELAY, because many kernels lack netem.
#
# With `switch`, the queue is that of the software switch, which writes telemetry:
#
#   tgk-a  eth0 -> a  switch (tgk-d)  b -> eth0  tgk-b
#
# With a P4 program, simple_switch of the behavioral model runs it in place of the box; p4c-bm2-ss
# compiles it. Its port towards tgk-b has the rate RATE in packets of 1,514 bytes:
#
#   tgk-a  eth0 -> a  simple_switch (tgk-s)  b -> eth0  tgk-b
set -euo pipefail

usage() {
  echo "usage: $0 up [RATE_MBITS=200] [DELAY=4ms] [QUEUE_BYTES=600000] \
[box|switch|PROGRAM.p4] | down" >&2
  exit 2
}

# Ends the processes in the namespaces and deletes these; logs remain.
stop() {
  for name in a s d b; do
    # shellcheck disable=SC2046
    kill $(ip netns pids tgk-$name 2>/dev/null) 2>/dev/null || true
    ip netns del tgk-$name 2>/dev/null || true
  done
}

down() {
  stop
  rm -f /run/tgk-switch.* /run/tgk-p4.*
}

link() { # NETNS NAME NETNS NAME
  ip -n "$1" link add name "$2" type veth peer name "$4" netns "$3"
  for end in "$1 $2" "$3 $4"; do
    # shellcheck disable=SC2086
    set -- $end
    ip netns exec "$1" ethtool -K "$2" tso off gso off gro off tx off >/dev/null
    ip -n "$1" link set dev "$2" up
  done
}

# Data passes tgk-s; acknowledgements take another path.
paths() {
  link tgk-a eth0 tgk-s a
  link tgk-s b tgk-b eth0
  link tgk-a eth1 tgk-d a
  link tgk-d b tgk-b eth1
  ip -n tgk-a addr add 10.77.0.1/24 dev eth0
  ip -n tgk-b addr add 10.77.0.2/24 dev eth0
  ip -n tgk-a addr add 10.77.9.1/24 dev eth1
  ip -n tgk-b addr add 10.77.9.2/24 dev eth1
  ip netns exec tgk-a sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth1.rp_filter=0
  # An acknowledgement for every packet, at once: delay is the signal.
  ip -n tgk-b route add 10.77.0.1 via 10.77.9.1 dev eth1 src 10.77.0.2 quickack 1
}

# The queue of a Linux box.
box() {
  paths
  link tgk-s q0 tgk-s q1
  for bridge in "br0 a q0" "br1 q1 b"; do
    # shellcheck disable=SC2086
    set -- $bridge
    ip -n tgk-s link add name "$1" type bridge
    ip -n tgk-s link set dev "$2" master "$1"
    ip -n tgk-s link set dev "$3" master "$1"
    ip -n tgk-s link set dev "$1" up
  done
  ip netns exec tgk-s tc qdisc add dev q0 root tbf rate "${rate}mbit" burst 3100 limit "$queue"
}

# The rate of a record, rounded down: 5 bits of exponent e, 7 of mantissa m, (128 + m) * 2^e / 128
# kbit/s.
rate_code() {
  local kbits=$((rate * 1000)) e=0
  while [ $((kbits >> (e + 1))) -gt 0 ]; do e=$((e + 1)); done
  echo $(((e << 7) + (kbits * 128 >> e) - 128))
}

# The queue of a switch that runs a P4 program.
p4() {
  paths
  p4c-bm2-ss --arch v1model -o /run/tgk-p4.json "$program"
  nice -n -20 ip netns exec tgk-s simple_switch -i 1@a -i 2@b /run/tgk-p4.json \
    >/run/tgk-p4.log 2>&1 &
  local mac
  mac=$(ip netns exec tgk-b cat /sys/class/net/eth0/address)
  ip -n tgk-a neigh add 10.77.0.2 lladdr "$mac" dev eth0
  {
    echo "table_add IngressBlock.forward.destinations forward $mac => 2"
    echo "set_queue_rate $((rate * 1000000 / 8 / 1514)) 2"
    echo "set_queue_depth $((queue / 1514)) 2"
    ! grep -q has_rate "$program" || echo "table_add EgressBlock.rates has_rate 2 => $(rate_code)"
  } > /run/tgk-p4.commands
  # An empty list of commands shows whether the switch answers. Then commands are sent once, because
  # a repeated `table_add` fails.
  for _ in $(seq 50); do
    ip netns exec tgk-s simple_switch_CLI </dev/null >/dev/null 2>&1 && break
    sleep 0.1
  done
  if ! ip netns exec tgk-s simple_switch_CLI < /run/tgk-p4.commands > /run/tgk-p4.setup 2>&1 ||
    grep -qE 'Error|Invalid|Could not' /run/tgk-p4.setup; then
    cat /run/tgk-p4.setup >&2
    echo "simple_switch is not configured: see /run/tgk-p4.log" >&2
    exit 1
  fi
}

# The queue of the software switch.
switch() {
  link tgk-a eth0 tgk-d a
  link tgk-d b tgk-b eth0
  ip -n tgk-a addr add 10.77.0.1/24 dev eth0
  ip -n tgk-b addr add 10.77.0.2/24 dev eth0
  ip -n tgk-b route add 10.77.0.1 dev eth0 src 10.77.0.2 quickack 1
}

up() {
  rate=$1 delay=$2 queue=$3 kind=$4 logs=/run/tgk-switch.log
  tidegate=${TIDEGATE:-target/debug/tidegate}
  if ! command -v "$tidegate" >/dev/null; then
    echo "$tidegate is not a program: build it, or name another one by TIDEGATE=PATH" >&2
    exit 1
  fi
  case $kind in
    box | switch) ;;
    *.p4) program=$kind kind=p4 logs="$logs and /run/tgk-p4.log" ;;
    *) usage ;;
  esac
  for name in a s d b; do
    ip netns add tgk-$name
    ip netns exec tgk-$name sysctl -qw net.ipv6.conf.all.disable_ipv6=1
    ip -n tgk-$name link set dev lo up
  done
  case $kind in
    box | p4) $kind; forward=10Gbps there=$delay buffer=8MB ;;
    switch) switch; forward=${rate}Mbps there=0s buffer=${queue}B ;;
  esac
  # One packet at a time: pacing otherwise sends the packets of a millisecond at once.
  ip -n tgk-a link set dev eth0 gso_max_segs 1
  for name in a b; do
    ip netns exec tgk-$name sysctl -qw net.ipv4.tcp_no_metrics_save=1
  done
  cat > /run/tgk-switch.toml <<TOML
[switch]
buffer = "$buffer"
sharing = "complete"
[[port]]
name = "a"
rate = "10Gbps"
delay = "$delay"
interface = "a"
[[port]]
name = "b"
rate = "$forward"
delay = "$there"
interface = "b"
TOML
  # Other load on the machine must not add to the delay.
  nice -n -20 ip netns exec tgk-d "$tidegate" switch /run/tgk-switch.toml -q \
    >/run/tgk-switch.log 2>&1 &
  for _ in $(seq 50); do
    # A refused connection shows that packets pass.
    answer=$(ip netns exec tgk-a timeout 1 bash -c '</dev/tcp/10.77.0.2/1' 2>&1 || true)
    case $answer in *refused*) return ;; esac
    sleep 0.1
  done
  echo "no packet passes: see $logs" >&2
  exit 1
}

case "${1:-}" in
  up)
    down
    trap stop EXIT
    up "${2:-200}" "${3:-4ms}" "${4:-600000}" "${5:-box}"
    trap - EXIT
    ;;
  down) down ;;
  *) usage ;;
esac
