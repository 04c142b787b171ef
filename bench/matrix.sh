#!/usr/bin/env bash
# acks, linger and batch size against the embedded broker, one node of Apache Kafka, and three: one command and one page for each
# cell, and the verdict of `hone compare` on linger. The same records a second everywhere.
# Beside them what full batches say: linger changes nothing when one record fills a batch, and the batch is what saves the CPU.
#   bench/matrix.sh [FOLDER] [TARGET ...]    targets: embedded kafka cluster (all of them)
# Environment: RATE (2000 records/s), SECONDS_EACH (6), SECONDS_JUDGED (3), PAIRS (6). Records and pages stay in FOLDER (matrix). Half
# an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-matrix}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(embedded kafka cluster)
rate=${RATE:-2000}
seconds=${SECONDS_EACH:-6}
judged_seconds=${SECONDS_JUDGED:-3}
pairs=${PAIRS:-6}
hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone
mkdir -p "$out"
scratch=$(mktemp -d)
server=
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}
trap 'stop; rm -rf "$scratch"' EXIT

# start TARGET: sets `address`.
start() {
  rm -rf "$scratch/data"
  : > "$scratch/ready"
  case "$1" in
    embedded) "$hone" broker --listen 127.0.0.1:0 --metrics-listen off --data "$scratch/data" > "$scratch/ready" & ;;
    kafka) bench/kafka.sh run "$scratch/data" > "$scratch/ready" & ;;
    cluster) KAFKA_HEAP=512m bench/kafka.sh cluster "$scratch/data" > "$scratch/ready" & ;;
    *) echo "matrix.sh: no target $1; there are embedded, kafka, cluster" >&2; exit 2 ;;
  esac
  server=$!
  until grep -q ready "$scratch/ready"; do
    kill -0 "$server" || { echo "matrix.sh: $1 did not start" >&2; exit 1; }
    sleep 0.2
  done
  address=$(sed -n 's/.*kafka=\([^ ]*\).*/\1/p' "$scratch/ready")
}

# cell NAME ARGUMENTS...: one load, one record, one page, one line.
cell() {
  local record=$out/$1.json
  rm -f "$record"
  "$hone" load "$address" --quiet --duration "$seconds" --max-lateness 1s --output "$record" "${@:2}" > "$out/$1.txt" || true
  [ ! -s "$record" ] || "$hone" report "$record" --output "$out/$1.html" > /dev/null
  python3 - "$1" "$record" <<'PY'
import json, sys
name, path = sys.argv[1:]
try:
    body = json.load(open(path))["body"]
except OSError:
    print(f"{name:<34} no record"); sys.exit()
facts = body["facts"]
batches = (body.get("batches") or [{}])[0]
per = batches["records"] / batches["batches"] if batches.get("batches") else float("nan")
cpu = facts.get("target_cpu")
cpu = f'{cpu["total_s"] * 1e6 / max(1, facts["acked_records"]):8.1f}' if cpu else "       -"
second = sorted(point["latency_us_p50"] for point in body["series"])
p50 = second[len(second) // 2] if second else 0
outcome = body["outcome"] if isinstance(body["outcome"], str) else next(iter(body["outcome"]))
print(f"{name:<34} {per:10.1f} records/batch {cpu} us CPU/record  p50 {p50 / 1e3:8.2f} ms  {outcome}")
PY
}

# judge WHAT ARGUMENTS...: a verdict, on its page and in a line.
judge() {
  local status=0
  echo "== $1"
  "$hone" compare "$address" --client librdkafka --rate "$rate" --connections 1 --partitions 1 --duration "$judged_seconds" \
    --warmup 1000 --pairs "$pairs" --control-pairs 5 --max-lateness 1s --quiet --output "$out/runs" "${@:2}" \
    > "$scratch/judged" || status=$?
  # 3 is a verdict, too. An arm that can't carry the rate ends a comparison, which says so.
  sed -n '1,/^$/p;/^  \*/p;/^    p50/p' "$scratch/judged"
  case $status in 0 | 3) ;; *) echo "   no verdict (code $status)" ;; esac
}

for target in "${targets[@]}"; do
  start "$target"
  # A JVM that is not warm fakes differences of a factor of ten.
  "$hone" load "$address" --quiet --rate 4000 --duration 10 --acks 1 --warmup 60000 --max-lateness 10s > /dev/null || true
  for acks in 1 all; do
    for batch in 1 2 5 10 20 50 100; do
      cell "$target-acks-$acks-batch-$batch" --acks "$acks" --rate "$(python3 -c "print($rate / $batch)")" --records "$batch"
    done
    for linger in 0 1 5 10; do
      cell "$target-acks-$acks-linger-$linger" --acks "$acks" --rate "$rate" --client librdkafka --client-set "linger.ms=$linger" \
        --connections 1 --partitions 1
    done
    judge "$target, acks=$acks: linger.ms 0 against 5" --acks "$acks" --change client.linger.ms=0,5
  done
  judge "$target, acks=all, one record a batch whatever linger says: linger.ms 0 against 5" --acks all \
    --client-set batch.num.messages=1 --change client.linger.ms=0,5
  judge "$target, acks=all, linger.ms 5: one record a batch against what fits" --acks all \
    --client-set linger.ms=5 --change client.batch.num.messages=1,10000
  stop
done
