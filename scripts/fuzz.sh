#!/bin/sh
# Fuzzes everything for so many seconds each, a minute unless told: for a machine's nights. Ends at
# the first finding. Needs a nightly toolchain and cargo-fuzz.
set -eu
cd "$(dirname "$0")/../fuzz"
for target in $(cargo +nightly fuzz list); do
  echo "== $target"
  cargo +nightly fuzz run "$target" -- -max_total_time="${1:-60}"
done
