#!/bin/sh
# Runs every fuzz target for a number of seconds: fuzz.sh [SECONDS] (default: 60). Stops at the
# first finding. Needs a nightly toolchain and cargo-fuzz.
set -eu
cd "$(dirname "$0")/../fuzz"
for target in $(cargo +nightly fuzz list); do
  echo "== $target"
  # A thread that ends during the check for leaks counts as one. Slow targets would only see inputs
  # of some bytes if lengths grew with the number of runs.
  cargo +nightly fuzz run "$target" -- -max_total_time="${1:-60}" -detect_leaks=0 -len_control=0
done
