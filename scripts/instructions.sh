#!/usr/bin/env bash
# Measures instructions per packet-hop with cachegrind, independent of the load of the machine.
# Fails if a count rises by more than 2 %. UPDATE=1 records the measured counts. Counts depend on
# the compiler, which is recorded with them.
set -euo pipefail
cd "$(dirname "$0")/.."
recorded=crates/sim/benches/instructions.txt
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 1; }

bench=$(cargo bench -p tidegate-sim --bench permutation --no-run 2>&1 \
  | sed -n 's/.*(\(.*permutation-[0-9a-f]*\)).*/\1/p' | tail -1)
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT
rustc --version | sed 's/^/# /' > "$measured"
for protocol in swift poseidon powertcp dctcp sird homa dcpim expresspass; do
  log=$(valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    "$bench" "$protocol" --once 2>&1)
  refs=$(sed -n 's/.*I *refs: *//p' <<<"$log" | tr -d ,)
  hops=$(sed -n 's/.* hosts \([0-9]*\) packet-hops.*/\1/p' <<<"$log")
  awk -v p="$protocol" -v r="$refs" -v h="$hops" \
    'BEGIN { printf "%s %.1f\n", p, r / h }' >> "$measured"
done

if [ -n "${UPDATE:-}" ]; then cp "$measured" "$recorded"; fi
awk '/^#/ { next } FNR == NR { before[$1] = $2; next }
     { change = 100 * ($2 / before[$1] - 1)
       printf "%-11s %7.1f instructions per packet-hop, recorded %7.1f (%+.1f %%)\n",
         $1, $2, before[$1], change
       if (change > 2) worse = 1 }
     END { exit worse }' "$recorded" "$measured"
