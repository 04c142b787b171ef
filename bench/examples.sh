#!/usr/bin/env bash
# Every example through `hone optimize`, with all its variants, and the tables of docs/results.md on standard output, with what exact counts
# predict of them.
#   bench/examples.sh [NAME ...]     $RUNS/examples (runs/examples) keeps the runs: one that was broken off goes on, one that is done is read
# On two cores with nothing else to do: two hours and a half. Needs what script/bootstrap --test installs, and the packages that the fetch.sh of
# an example names; they are asked for before anything is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${RUNS:-runs}/examples
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(redis nghttpx leveldb lua sqlite jaq broker kfake go-service)
hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker

# Folder of the newest run of an experiment's name; nothing when there is none.
newest() { find "$out" -maxdepth 1 -type d -name "$1-[0-9]*" 2>/dev/null | sort | tail -n 1; }

mkdir -p "$out"
for name in "${names[@]}"; do
  if [ -x "examples/$name/fetch.sh" ]; then "examples/$name/fetch.sh" >&2; fi
done
done=()
for name in "${names[@]}"; do
  file=examples/$name/hone.toml
  [ -f "$file" ] || { echo "examples.sh: there is no $file" >&2; exit 2; }
  title=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$file")
  run=$(newest "$title")
  if [ -z "$run" ] || [ ! -f "$run/optimization.json" ]; then
    again=()
    [ -z "$run" ] || again=(--resume "$run")
    status=0
    "$hone" optimize "$file" --output "$out" "${again[@]}" >&2 || status=$?
    # 3 is an answer: measured and worse.
    [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
    run=$(newest "$title")
  fi
  done+=("$run")
done
python3 bench/examples/table.py "${done[@]}"
# A model of several examples: each is predicted from the others.
if [ ${#done[@]} -ge 3 ]; then
  echo "## What counts predict"
  echo
  python3 bench/examples/cost_model.py "${done[@]}"
fi
