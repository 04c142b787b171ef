#!/usr/bin/env bash
# What `hone compare --capacity` says of a planted difference: the embedded broker whose writes begin 2 ms late, against 4 ms late, in five pairs,
# and against itself in five.
#   bench/capacity.sh     $RUNS (runs) keeps the run. Ten minutes on two cores that have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${RUNS:-runs}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked -p hone -p hone-broker >&2
broker="$target/release/hone-broker --listen 127.0.0.1:{port} --metrics-listen off --data {data} --storage-fault write-delay,ms="

record=$(mktemp)
trap 'rm -f "$record"' EXIT
status=0
"$target/release/hone" compare "${broker}2" "${broker}4" --capacity --slo p90=30ms --from 100 --growth 1.1 --partitions 1 --connections 1 --warmup 50 \
  --pairs 5 --control-pairs 5 --keep-disturbed --output "$out" --json --quiet >"$record" || status=$?
# 3 is the answer: worse, as was planted.
[ "$status" = 3 ] || { echo "capacity.sh: hone compare ended with $status, and not with 3: a broker of half the speed was not found" >&2; exit 1; }
python3 - "$record" <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))["body"]["judgements"][0]
for name, told in [("4 ms late / 2 ms late", found["estimate"]), ("against itself", found["control"])]:
    print(f"capacity, {name}: {told['ratio']:.3f} [{told['low']:.3f}, {told['high']:.3f}]")
PY
