#!/usr/bin/env bash
# Merging profiles of BOLT, beside merge-fdata: ten files of 50 MB, with records in the order of one program, and shuffled.
# Wanted: under 5 s and the same sums; in order a third of merge-fdata's time at most, shuffled two thirds. Both are run in
# turn, five times each; told is the best of each (neighbours only ever add time), and the CPU of that run. Exit code 3: a goal is missed.
#   bench/fdata.sh [FILES] [MEGABYTES] [ROUNDS]     MERGE_FDATA names another merge-fdata (of LLVM 20 or newer)
set -euo pipefail
cd "$(dirname "$0")/.."
files=${1:-10} megabytes=${2:-50} rounds=${3:-5}
theirs=${MERGE_FDATA:-$(readlink -f "$(command -v merge-fdata-22)" || true)}
[ -x "$theirs" ] || { echo "fdata: there is no merge-fdata-22; install bolt-22, or name one by MERGE_FDATA" >&2; exit 2; }
cargo build --release --locked -p hone-binary --example fdata
ours="${CARGO_TARGET_DIR:-target}/release/examples/fdata"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Wall time and CPU of a command, in seconds.
TIMEFORMAT='%R %U %S'
seconds() { { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1, $2 + $3 }'; }
best() { sort -g | head -n 1; }

missed=no
for order in in-order shuffled; do
  [ "$order" = in-order ] && wanted=3 || wanted=1.5
  rm -rf "$folder"/*
  "$ours" make "$folder" "$files" "$megabytes" "$order"
  own=() other=()
  for _ in $(seq "$rounds"); do
    own+=("$(seconds "$ours" merge "$folder/ours" "$folder"/*.fdata)")
    other+=("$(seconds "$theirs" -o "$folder/theirs" "$folder"/*.fdata)")
  done
  same=same
  cmp -s <(LC_ALL=C sort "$folder/ours") <(LC_ALL=C sort "$folder/theirs") || same=DIFFERENT
  read -r own_s own_cpu < <(printf '%s\n' "${own[@]}" | best)
  read -r other_s other_cpu < <(printf '%s\n' "${other[@]}" | best)
  printf '%-9s %2d files of %d MB: hone %.2f s (CPU %.2f), merge-fdata %.2f s (CPU %.2f), ratio %.1f, sums: %s (%d records)\n' \
    "$order" "$files" "$megabytes" "$own_s" "$own_cpu" "$other_s" "$other_cpu" "$(echo "scale=3; $other_s / $own_s" | bc)" \
    "$same" "$(wc -l <"$folder/ours")"
  [ "$same" = same ] || { echo "fdata: the sums differ" >&2; exit 1; }
  [ "$(echo "$own_s < 5 && $other_s > $wanted * $own_s" | bc)" = 1 ] || missed=yes
done
[ "$missed" = no ] || exit 3
