#!/usr/bin/env bash
# Every shape of a load with consumers, on hone-broker and on three nodes of Apache Kafka with three replicas: whether each record that was acknowledged
# was read exactly as often as the shape says, through rebalances and aborted transactions, and how late.
#   bench/shapes.sh             $RUNS/shapes (a new folder without RUNS) keeps each load: one that was broken off goes on
# Prints the table of docs/fetch.md. Exit code 3 when a record was left out or read once too often.
# About six minutes. Needs what `bench/kafka.sh fetch` fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
hone=${HONE:-$target/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker
broker=$(dirname "$hone")/hone-broker
out=$(mktemp -d)
kept=${RUNS:-$out}/shapes
mkdir -p "$kept"
pid=
clean() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
  pid=
}
trap 'clean; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# The name of each shape, how often it reads a record, the records that it stores before the window, and its options.
shapes=(
  "one consumer|1|0|--consumers 1"
  "four that read everything each|4|0|--consumers 4"
  "three groups of four|3|0|--consumers 4 --groups 3"
  "members of the classic protocol, with rebalances|1|0|--consumers 3 --group-protocol classic --rebalance-every 4s"
  "members of KIP-848, with rebalances|1|0|--consumers 3 --group-protocol consumer --rebalance-every 4s"
  "30 topics, zipf, six partitions each|1|0|--topics zipf:30 --partitions 6 --consumers 3 --consumer-group"
  "compacted topic, 100 keys|1|0|--keys uniform:100 --topic-config cleanup.policy=compact --consumers 1"
  "three processors, one of ten transactions aborted|1|0|--processors 3 --abort-every 10 --consumers 1"
  "three processors, five topics, members of KIP-848|1|0|--processors 3 --topics 5 --partitions 4 --consumers 2 --group-protocol consumer"
  "librdkafka, three processors|1|0|--client librdkafka --processors 3 --consumers 1"
  "backlog of 16 MiB, producers go on|1|83900|--rate 20 --records 100 --backlog 16MiB --consumers 1"
  "backlog of 16 MiB, reading alone|2|83900|--rate 0 --records 100 --backlog 16MiB --consumers 2"
)

# measured NAME ADDRESS OPTION...: loads a broker with every shape.
measured() {
  local name=$1 address=$2 number=0 shape
  shift 2
  for shape in "${shapes[@]}"; do
    number=$((number + 1))
    local file=$kept/$name-$number.json
    [ ! -s "$file" ] || continue
    echo "shapes.sh: $name: ${shape%%|*}" >&2
    read -ra options <<<"${shape##*|}"
    [[ " ${options[*]}" == *" --partitions "* ]] || options+=(--partitions 6)
    [[ " ${options[*]}" == *" --rate "* ]] || options+=(--rate 300)
    "$hone" load "$address" --bytes 200 --duration 12 --warmup 1000 --warmup-limit 5 --max-lateness 60s --timeout 30 --quiet \
      --output "$file.part" "$@" "${options[@]}" >"$out/said" || true
    # A virtual machine that still compiles has no steady figures, and every record is counted all the same.
    [ -s "$file.part" ] || { cat "$out/said" >&2; exit 1; }
    mv "$file.part" "$file"
  done
}

# ready COMMAND: starts it, and sets `address` from the line that says so.
ready() {
  "$@" >"$out/ready" 2>"$out/log" &
  pid=$!
  until grep -q '^ready' "$out/ready"; do
    kill -0 "$pid" 2>/dev/null || { cat "$out/log" >&2; exit 1; }
    sleep 0.1
  done
  address=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$out/ready")
}

ready "$broker" --listen 127.0.0.1:0 --metrics-listen off --data "$out/data"
measured hone-broker "$address"
clean
KAFKA_HEAP=512M ready bench/kafka.sh cluster "$out/kafka" min.insync.replicas=2
measured kafka "$address" --replication-factor 3
clean

printf '%s\n' "${shapes[@]}" >"$out/shapes"
python3 - "$kept" "$out/shapes" <<'PYTHON'
import json
import sys

kept, shapes = sys.argv[1:]
rows, wrong = [], 0
for number, shape in enumerate(open(shapes), 1):
    name, times, before, _ = shape.rstrip("\n").split("|")
    for broker in ("hone-broker", "kafka"):
        body = json.load(open(f"{kept}/{broker}-{number}.json"))["body"]
        seen = body["end_to_end"]
        there = body["facts"]["acked_records"] + int(before)
        is_right = seen["fetched_records"] == int(times) * there and seen["missing"] == 0
        wrong += not is_right
        transactions = seen.get("transactions")
        rows.append((name, broker, there, seen["fetched_records"], "yes" if is_right else "NO",
                     (seen.get("rebalances") or {}).get("count", ""),
                     f"{transactions['committed']} / {transactions['aborted']}" if transactions else ""))
head = ("shape", "broker", "records", "read", "as planted", "rebalances", "transactions committed / aborted")
print("| " + " | ".join(head) + " |")
print("|" + "---|" * len(head))
for row in rows:
    print("| " + " | ".join(str(cell) for cell in row) + " |")
print(f"\n{len(rows) - wrong} of {len(rows)} loads were read as their shape says.")
sys.exit(3 if wrong else 0)
PYTHON
