#!/usr/bin/env bash
# Redraws the pictures of README.md and the tutorial in docs/pictures: pictures.sh TIDEGATE
# PROTOCOLS, with the path of the program and the protocols of the demo (a,b,c). Needs Chromium in
# PATH.
set -euo pipefail
tidegate=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

awk '/^```toml/ {on = 1; next} on && /^```/ {exit} on' docs/tutorial.md > "$work/mine.toml"
"$tidegate" compare scenarios/demo/leaf-spine.toml --protocols "$2" --out "$work/demo" > /dev/null
"$tidegate" compare "$work/mine.toml" --protocols swift,dctcp,poseidon,sird \
  --set output.timeseries=20us --out "$work/tutorial" > /dev/null
for of in demo tutorial; do
  "$tidegate" report "$work/$of" --svg "$work/$of-figures" --width page > /dev/null
done

# Without a fixed size, a picture is as wide as the page that shows it.
keep() {
  sed '1s/ width="[^"]*" height="[^"]*"//' "$work/$1.svg" > "docs/pictures/$2.svg"
}
mkdir -p docs/pictures
keep demo-figures/slowdown-by-size-99th-percentile demo-slowdown
keep tutorial-figures/slowdown-by-size-99th-percentile tutorial-slowdown
keep tutorial-figures/queue-from-tor1-to-h12 tutorial-queue
