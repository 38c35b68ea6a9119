#!/usr/bin/env bash
# Redraws the pictures of README.md and the tutorial in docs/pictures, and the figures of the
# protocols' pages in docs/protocols/figures: pictures.sh TIDEGATE PROTOCOLS, with the path of the
# program and the protocols of the demo (a,b,c). Needs Chromium in PATH.
set -euo pipefail
tidegate=$(realpath "$1")
demo=$2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
runs=$work/runs
drawn=$work/drawn

# The protocol that needs circuits, and the others.
circuits=retcp
mapfile -t names < <("$tidegate" protocols --json | sed -n 's/^    "name": "\(.*\)",$/\1/p')
mapfile -t others < <(printf '%s\n' "${names[@]}" | grep -vx "$circuits")
# Protocols whose flows a window limits. The others set rates or grant credit.
windows=" dctcp dctcp-rate hpcc nscc nscc-rccc poseidon powertcp reno retcp smartt swift"
windows+=" theta-powertcp "

# Runs a scenario under protocols: compare NAME SCENARIO PROTOCOLS [OPTION]...
compare() {
  "$tidegate" compare "$2" --protocols "$3" --out "$runs/$1" --quiet "${@:4}" > /dev/null
}
# Draws runs: draw NAME WIDTH FOLDER...
draw() {
  "$tidegate" report "${@:3}" --out "$work/report.html" --svg "$drawn/$1" --width "$2" \
    --scheme auto > /dev/null
}

awk '/^```toml/ {on = 1; next} on && /^```/ {exit} on' docs/tutorial.md > "$work/mine.toml"
compare leaf-spine scenarios/demo/leaf-spine.toml "$demo"
compare multi-hop scenarios/poseidon/multi-hop.toml "$demo" --seeds 3
compare tutorial "$work/mine.toml" swift,dctcp,poseidon,sird --set output.timeseries=20us
compare steps scenarios/demo/steps.toml "$(IFS=,; echo "${others[*]}")"
"$tidegate" run scenarios/demo/circuits.toml --out "$runs/circuits/$circuits" --quiet > /dev/null

for name in leaf-spine multi-hop tutorial; do
  draw "$name" page "$runs/$name"
done
IFS=, read -ra shown <<< "$demo"
draw steps page "${shown[@]/#/$runs/steps/}"
for name in "${names[@]}"; do
  if [[ $name == "$circuits" ]]; then from=circuits; else from=steps; fi
  draw "$name" column "$runs/$from/$name"
done

# Without a fixed size, a picture is as wide as the page that shows it.
keep() {
  sed '1s/ width="[^"]*" height="[^"]*"//' "$drawn/$1.svg" > "docs/pictures/$2.svg"
}
mkdir -p docs/pictures docs/protocols/figures
keep leaf-spine/slowdown-by-size-99th-percentile-web-search demo-slowdown
keep multi-hop/goodput-mean-over-protocol demo-multi-hop
keep steps/queue-from-tor0-to-h0 demo-queue
keep tutorial/slowdown-by-size-99th-percentile-search tutorial-slowdown
keep tutorial/queue-from-tor1-to-h12 tutorial-queue
for name in "${names[@]}"; do
  cp "$drawn/$name/goodput-$name.svg" "docs/protocols/figures/$name-goodput.svg"
  cp "$drawn/$name"/queue-from-tor0-to-*.svg "docs/protocols/figures/$name-queue.svg"
  if [[ $windows == *" $name "* ]]; then
    cp "$drawn/$name/window-$name.svg" "docs/protocols/figures/$name-windows.svg"
  fi
done

# Records which semantics and scenario each run has, for the test of the documents.
(
  cd "$runs"
  find . -name manifest.json | LC_ALL=C sort | while read -r file; do
    of=$(dirname "${file#./}")
    echo "\"$of\": \"$(sed -n 's/^  "\(semantics\|scenario_hash\)": "\?\([^",]*\).*/\2/p' "$file" \
      | paste -sd ' ')\""
  done | sed '$!s/$/,/; s/^/  /; 1s/^/{\n/; $s/$/\n}/'
) > docs/pictures/runs.json
