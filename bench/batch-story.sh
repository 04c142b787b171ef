#!/usr/bin/env bash
# The published batch case, end to end on this machine: a load of many producers that linger badly, three changes that should be
# accepted, one that should be rejected, and a report.
#
#   bench/batch-story.sh                       against the embedded broker
#   bench/batch-story.sh --kafka               against Apache Kafka (bench/kafka.sh: one node, its own defaults)
#   bench/batch-story.sh --small               minutes in place of an hour; the figures then say little
#   HONE=path RATE=records/s PRODUCERS=n WINDOW_S=n PAIRS=n CONTROLS=n RUNS=folder bench/batch-story.sh
#   bench/batch-story.sh --java                by Java's producer in place of librdkafka (Maven fetches its jars)
#   CLIENT=command bench/batch-story.sh        by any other client (docs/client-protocol.md)
#
# Leaves its records, the table (proof.md) and the page (report.html) in $RUNS/batch-prove-NNN (runs/batch-prove-NNN).
set -euo pipefail
cd "$(dirname "$0")/.."

kafka='' small='' java=''
while [ $# -gt 0 ]; do
  case $1 in
    --kafka) kafka=1; shift ;;
    --small) small=1; shift ;;
    --java) java=1; shift ;;
    *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
  esac
done

hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || { echo "$hone is not there; build it: cargo build --release -p hone" >&2; exit 1; }
out=${RUNS:-runs}

# So many producers that each has little to put into a batch; without linger every record is a request.
rate=${RATE:-12000} producers=${PRODUCERS:-32} seconds=${WINDOW_S:-10} warmup=10000 pairs=${PAIRS:-10} controls=${CONTROLS:-6}
more=()
if [ -n "$small" ]; then
  rate=${RATE:-4000} producers=${PRODUCERS:-16} seconds=2 warmup=1000 pairs=5 controls=5
  more=(--keep-disturbed --max-lateness 5s)
  [ -n "$kafka" ] || more+=(--mode duet)
fi

server='' data='' client=${CLIENT:-}
cleanup() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  [ -z "$data" ] || rm -rf "$data"
}
trap cleanup EXIT

data=$(mktemp -d)
if [ -n "$java" ]; then
  mvn -q -B -ntp -f examples/clients/java/pom.xml dependency:copy-dependencies "-DoutputDirectory=$data/jars" >&2
  client="java -cp $data/jars/* examples/clients/java/Client.java"
fi
[ -z "$client" ] || more+=(--client "$client")
target=()
if [ -n "$kafka" ]; then
  bench/kafka.sh fetch
  bench/kafka.sh run "$data/kafka" >"$data/out" 2>"$data/err" &
  server=$!
  for _ in $(seq 240); do
    address=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$data/out")
    [ -z "$address" ] || break
    kill -0 "$server" 2>/dev/null || { tail -5 "$data/err" >&2; exit 1; }
    sleep 0.5
  done
  [ -n "$address" ] || { echo "Apache Kafka was not ready after two minutes" >&2; exit 1; }
  # A virtual machine that has compiled nothing yet is another broker; the first windows would be of that one.
  "$hone" load "$address" --rate "$rate" --bytes 100 --connections "$producers" --partitions 12 --duration 30 --quiet >/dev/null
  target=("$address" --storage page-cache)
fi

# Each step is held against what was kept until then. The last one asks for memory that nobody needs: it has to be rejected.
"$hone" batch prove "${target[@]}" --rate "$rate" --bytes 100 --connections "$producers" --partitions 12 --compressible 0.5 \
  --duration "$seconds" --warmup "$warmup" --pairs "$pairs" --control-pairs "$controls" --output "$out" \
  --original 'linger=0' \
  --step 'linger=10ms' --step 'linger=50ms' --step 'linger=200ms' --step 'buffer-memory=2GiB' \
  --require 'p99<1s' --markdown "${more[@]}"
