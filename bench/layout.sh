#!/usr/bin/env bash
# From a diagnosis to a layout and back, on a machine without counters: why it stalls, a profile for BOLT out of an exact trace, what its layout was
# foretold to do, what was measured, what a trace of the result finds, and the heatmap of both.
#   bench/layout.sh [redis|broker ...]     both unless named; $RUNS/layout (runs/layout) keeps the runs
# Needs what script/bootstrap --test installs. A quarter of an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${RUNS:-runs}/layout
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(redis broker)
hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker
mkdir -p "$out"

newest() { find "$out" -maxdepth 1 -type d -name "$1-[0-9]*" | sort | tail -n 1; }

for name in "${names[@]}"; do
  file=examples/$name/hone.toml
  [ -f "$file" ] || { echo "layout: there is no $file" >&2; exit 2; }
  if [ -x "examples/$name/fetch.sh" ]; then "examples/$name/fetch.sh" >&2; fi
  title=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$file")
  status=0
  "$hone" optimize "$file" --variants emulated-bolt,bolt --output "$out" >"$out/$title.txt" || status=$?
  # 3 is an answer: measured and worse.
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
  run=$(newest "$title")
  echo "== $name =="
  cat "$out/$title.txt"
  diagnosed=()
  for variant in relocs emulated-bolt; do
    program=$(find "$run/bin/$variant" -type f | head -n 1)
    "$hone" diagnose "$file" --program "$program" --output "$out" >"$out/$title-$variant.txt"
    diagnosed+=("$(newest "$title-diagnosis")")
    echo "found by a trace of $variant:"
    grep -E "L1i 32 KiB|iTLB 64 x|branches taken" "$out/$title-$variant.txt"
  done
  "$hone" heatmap "${diagnosed[@]}" -o "$out/$title-moved.html"
  "$hone" heatmap "${diagnosed[@]}" -o "$out/$title-moved.png"
done
