#!/usr/bin/env bash
# Builds the files of a release in dist/ from the last commit: docs/releasing.md. The same commit,
# compiler and tools yield the same bytes, in any folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest C library that the wheel supports: 2.17, of 2012.
MANYLINUX=manylinux_2_17

fail() { echo "dist: $1" >&2; exit 1; }

arch=$(uname -m)
musl=$arch-unknown-linux-musl
work=$PWD/target/dist
source=$work/source
out=$PWD/dist

for tool in cargo gzip musl-gcc python3 sha256sum; do
  command -v $tool >/dev/null || fail "$tool is missing: install it (musl-gcc is in musl-tools)"
done
sysroot=$(rustc --print sysroot)
[ -d "$sysroot/lib/rustlib/$musl" ] || rustup target add "$musl" \
  || fail "Rust's target $musl is missing: install it with rustup"
[ -z "$(git status --porcelain)" ] || echo "dist: changes that are not committed are not included"

# Neither files that git ignores nor this folder's path affect the build.
umask 022
rm -rf "$source" "$out"
mkdir -p "$work" "$out"
git clone --quiet --local . "$source"
cd "$source"
export CARGO_TARGET_DIR=$work/build
export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
remaps=$(printf -- '--remap-path-prefix=%s=/build' "$work")
# The folders of the registry exist once the crates are there; their paths must not be in a program.
cargo fetch --locked
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
  [ -d "$registry" ] || fail "$registry is no folder: the crates' sources are not where cargo says"
  remaps+=$'\x1f'$(printf -- '--remap-path-prefix=%s=/crates' "$registry")
done
export CARGO_ENCODED_RUSTFLAGS=$remaps
export LC_ALL=C TZ=UTC

python3 -m venv "$work/tools"
export PATH=$work/tools/bin:$PATH
pip install --quiet --requirement scripts/dist-requirements.txt

version=$(cargo metadata --no-deps --format-version 1 --locked \
  | python -c 'import json, sys; print(json.load(sys.stdin)["packages"][0]["version"])')

# Entries of archives have no owner and the time of the commit.
pack() { # FOLDER, in $work
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
    -C "$work" -c "$1" | gzip -n -9 >"$out/$1.tar.gz"
}

# 1. A program that needs no library of the system, with its documents.
cargo build --locked --profile dist --target "$musl" -p tidegate-cli
program=$CARGO_TARGET_DIR/$musl/dist/tidegate
name=tidegate-$version-$arch-linux-musl
folder=$work/$name
rm -rf "$folder"
mkdir -p "$folder"/{completions,man}
cp "$program" README.md LICENSE-APACHE LICENSE-MIT "$folder"
for shell in bash zsh fish; do
  "$program" completions $shell >"$folder/completions/tidegate.$shell"
done
"$program" man >"$folder/man/tidegate.1"
# The licences of Rust's standard library are in the documents of the toolchain.
library=$sysroot/share/doc/rust/COPYRIGHT-library.html
[ -e "$library" ] || fail "$library is missing: reinstall the toolchain"
python scripts/third_party.py tidegate-cli "$musl" \
  "$folder/LICENSE-THIRD-PARTY.txt" "$out/$name.cdx.json"
cp "$library" "$folder/LICENSE-RUST-LIBRARY.html"
pack "$name"

# 2. A wheel for every Python from 3.10 on.
sbom=$out/tidegate-$version-$arch-$MANYLINUX.cdx.json
python scripts/third_party.py tidegate-python "$arch-unknown-linux-gnu" \
  LICENSE-THIRD-PARTY.txt "$sbom"
cp "$library" LICENSE-RUST-LIBRARY.html
maturin build --locked --profile dist --zig --compatibility $MANYLINUX --sbom-include "$sbom" \
  --out "$out"

# 3. The sources: of the repository, and for Python's package index.
git archive --format=tar --prefix="tidegate-$version/" HEAD | gzip -n -9 \
  >"$out/tidegate-$version-source.tar.gz"
rm LICENSE-THIRD-PARTY.txt LICENSE-RUST-LIBRARY.html
maturin sdist --out "$out"

cd "$out"
sha256sum -- * >SHA256SUMS
cat SHA256SUMS
