#!/usr/bin/env bash
# Measures what `tidegate send` reaches of a target rate: live.sh TIDEGATE [loopback|veth]...
# prints a table with a row for each path, protocol and rate. Without a path both are measured. The
# veth pair joins two network namespaces, which the script makes and removes (root, iproute2).
#
#   RATES       targets, the rates of the link (default: 1Gbps 3Gbps 10Gbps)
#   PROTOCOLS   protocols that need nothing of switches (default: swift theta-powertcp reno)
#   MTU         of the veth pair (default: 1500); its datagrams are 28 bytes shorter
#   DURATION    of each measurement (default: 5s)
#   OPTIONS     more options of `send` and of `serve`, such as --param ack_every=16
set -euo pipefail
tidegate=$(realpath "${1:?"usage: live.sh TIDEGATE [loopback|veth]..."}")
shift
for path in "${@:-}"; do
  case $path in
    '' | loopback | veth) ;;
    *) echo "live.sh: PATH: found $path, expected loopback or veth" >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || set -- loopback veth
rates=${RATES:-1Gbps 3Gbps 10Gbps}
protocols=${PROTOCOLS:-swift theta-powertcp reno}
mtu=${MTU:-1500}
duration=${DURATION:-5s}
read -ra options <<< "${OPTIONS:-}"

work=$(mktemp -d)
near=tg-live-$$-a far=tg-live-$$-b server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  for space in "$near" "$far"; do ip netns del "$space" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

join() {
  ip netns add "$near"
  ip netns add "$far"
  ip link add tg0 mtu "$mtu" netns "$near" type veth peer name tg0 mtu "$mtu" netns "$far"
  ip -n "$near" address add 10.213.0.1/24 dev tg0
  ip -n "$far" address add 10.213.0.2/24 dev tg0
  ip -n "$near" link set tg0 up
  ip -n "$far" link set tg0 up
}

# One measurement, a row of the table: PATH PROTOCOL RATE
measure() {
  local path=$1 protocol=$2 rate=$3 listen=127.0.0.1:0 at address status=0
  local both=(--protocol "$protocol" --rate "$rate" "${options[@]}")
  local here=() there=()
  if [ "$path" = veth ]; then
    here=(ip netns exec "$near") there=(ip netns exec "$far") listen=10.213.0.2:0
    both+=(--datagram "$((mtu - 28))B")
  fi
  "${there[@]}" "$tidegate" serve --listen "$listen" "${both[@]}" --once --json \
    > "$work/served" 2> "$work/listening" &
  server=$!
  for _ in $(seq 100); do
    address=$(sed -n 's/^listening on \([^,]*\),.*/\1/p' "$work/listening")
    [ -z "$address" ] && kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$address" ] || { cat "$work/listening" >&2; exit 1; }
  "${here[@]}" "$tidegate" send "$address" "${both[@]}" --duration "$duration" --json -q \
    > "$work/sent" 2> "$work/messages" || status=$?
  [ -s "$work/sent" ] || { cat "$work/messages" >&2; exit "$status"; }
  wait "$server" || true
  server=
  python3 - "$path" "$protocol" "$rate" "$work/sent" "$work/served" <<'PYTHON'
import json
import sys

path, protocol, rate, *files = sys.argv[1:]
sent, served = (json.load(open(file)) for file in files)
target, goodput = sent["target_gbps"], sent["goodput_gbps"]
share = f"{100 * goodput / target:5.0f} %" if target else "      -"
aimed = f"{target:7.3f}" if target else "      -"
cores = [one["engine"]["cpu_seconds"] / sent["engine"]["wall_seconds"] for one in (sent, served)]
row = f"{path:<9} {protocol:<15} {rate:>8} {aimed} {goodput:9.3f} {share}"
print(f"{row} {cores[0]:7.2f} {cores[1]:7.2f}  {sent['failure'] or ''}".rstrip())
PYTHON
}

echo "path      protocol            rate  target  achieved   share    send   serve"
echo "                                     Gbit/s    Gbit/s           cores   cores"
for path in "$@"; do
  if [ "$path" = veth ]; then join; fi
  for protocol in $protocols; do
    for rate in $rates; do measure "$path" "$protocol" "$rate"; done
  done
done
