#!/usr/bin/env bash
# Fetches the plotting library of reports with npm, and checks it.
set -euo pipefail

version=4.1.1
sha512=1oNF8PeQx2hv/y7tqEVWKD3JGwn/MGEMQ8mL9HUwsaqG9FGy/OU5FHUHvzqbqxN4mnwZGI9abTiE775C4kkjMQ==

to="$(dirname "$0")/../crates/papers/vendor/plotly"
name=plotly.js-basic-dist-min
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "$name@$version" >/dev/null
archive="$folder/$name-$version.tgz"
if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$sha512" ]; then
  echo "$name $version has a different checksum: it was changed upstream" >&2
  exit 1
fi
tar -xzf "$archive" -C "$to" --strip-components=1 package/plotly-basic.min.js package/LICENSE
