#!/usr/bin/env bash
# What a heatmap costs: hone heatmap and llvm-bolt-heatmap on the same pre-aggregated branches of the same program (200 MiB of code, made here
# with a fixed seed), in turns, three times each; told are the medians of wall time, CPU and peak memory. Then the page of it: its size, and
# how long a browser takes until it answers a key.
# Wanted: a quarter of its CPU at most, under 1 GiB; under 5 MB, under 2 s. Exit code 3: a goal is missed.
#   bench/heatmap.sh [LINES] [DIFFERENT]     10 million lines, of which half are different records; LLVM_BOLT_HEATMAP names another one (22)
set -euo pipefail
cd "$(dirname "$0")/.."
lines=${1:-10000000} different=${2:-$((${1:-10000000} / 2))} functions=204800
missing() { echo "heatmap: there is no $1; run script/bootstrap --test" >&2; exit 2; }
theirs=${LLVM_BOLT_HEATMAP:-$(command -v llvm-bolt-heatmap-22 || true)}
[ -x "$theirs" ] || missing llvm-bolt-heatmap-22
for tool in python3 as ld chromium; do command -v "$tool" >/dev/null || missing "$tool"; done
[ "$(uname -m)" = x86_64 ] || { echo "heatmap: the program that it makes is one for x86-64" >&2; exit 2; }
if [ -z "${HONE:-}" ]; then
  cargo build --release --locked --quiet -p hone
  HONE="${CARGO_TARGET_DIR:-target}/release/hone"
fi
hone=$(realpath "$HONE")
part=$(realpath bench/heatmap.py)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 "$part" program . "$functions"
as -o heat.o heat.s
ld -Ttext=0x400000 -o heat heat.o
python3 "$part" branches heat.pa "$functions" "$different" "$lines"
echo "$lines lines, $different different ($(du -m heat.pa | cut -f1) MiB), of a program of $(du -m heat | cut -f1) MiB"
missed=no
# A part that ends with 3 has measured, and missed its goal.
measured() {
  local status=0
  "$@" || status=$?
  [ "$status" != 3 ] || missed=yes
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
}
measured python3 "$part" compare "$theirs" heat --pa -p heat.pa -o theirs -- "$hone" heatmap heat.pa --program heat -o heat.html
measured python3 "$part" page heat.html "$folder" "$(command -v chromium)"
[ "$missed" = no ] || exit 3
