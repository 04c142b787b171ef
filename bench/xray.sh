#!/usr/bin/env bash
# How fast `hone batch xray` reads: from memory by batch size, and a whole topic of the embedded broker beside the same Fetch loop that looks at
# nothing, beside kcat, and beside Kafka's dump-log on the same segments. CPU and wall seconds of each, most memory, and whether all count
# the same batches.
#   bench/xray.sh [GIB]     a topic of 2 GiB unless said. Wants kcat; dump-log with the jars of `bench/kafka.sh fetch`, else it is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
gib=${1:-2}
command -v kcat >/dev/null || { echo "xray.sh: there is no kcat (apt-get install kcat)" >&2; exit 2; }
cargo build --release --quiet --locked -p hone
cargo build --release --quiet --locked -p hone-batch --example scan_speed
cargo build --release --quiet --locked -p hone-load --example raw_fetch
built=${CARGO_TARGET_DIR:-target}/release
hone=$(realpath "$built/hone")
work=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }; rm -rf "$work"; }
trap stop EXIT

echo "from memory, one core"
"$built/examples/scan_speed"

"$hone" broker --listen 127.0.0.1:0 --metrics off --data "$work/data" --partitions 4 > "$work/ready" &
server=$!
until grep -q ready "$work/ready"; do kill -0 "$server"; sleep 0.1; done
address=$(sed -n 's/.*kafka=\([^ ]*\).*/\1/p' "$work/ready")
# Metadata makes the topic.
kcat -b "$address" -L -t large >/dev/null 2>&1
# Batches of 10 records of 400 bytes; by the wire engine, whose frames are made before.
seconds=$((gib * 1024 / 40))
"$hone" load "$address" --topic large --rate 10000 --records 10 --bytes 400 --acks 1 --duration "$seconds" --quiet --lateness-limit 60000 \
  --json > "$work/load.json" || true

# cost COMMAND...: wall seconds, CPU seconds, most memory in MiB, and the first line that it printed.
cost() {
  python3 - "$@" <<'PY'
import resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
wall = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
lines = done.stdout.split(b"\n")
print(f"{wall:.2f} {used.ru_utime + used.ru_stime:.2f} {used.ru_maxrss / 1024:.0f} {done.returncode} {len(lines)}")
PY
}
row() { printf '%-34s %8s s %8s s CPU %8s MiB\n' "$1" "$2" "$3" "$4"; }
topic_bytes=$("$built/examples/raw_fetch" "$address" large)
echo
echo "a topic of $topic_bytes bytes"
for round in 1 2 3; do
  read -r wall cpu mib _ _ < <(cost "$built/examples/raw_fetch" "$address" large)
  row "the Fetch loop alone" "$wall" "$cpu" "$mib"
  read -r wall cpu mib _ _ < <(cost "$hone" batch xray "$address" large --last all --budget 1000000 --limit 1h --no-payload --quiet --json)
  row "hone batch xray --no-payload" "$wall" "$cpu" "$mib"
  read -r wall cpu mib _ _ < <(cost "$hone" batch xray "$address" large --last all --budget 1000000 --limit 1h --quiet --json)
  row "hone batch xray" "$wall" "$cpu" "$mib"
  read -r wall cpu mib _ _ < <(cost kcat -b "$address" -C -t large -o beginning -e -q -f '')
  row "kcat, which prints nothing" "$wall" "$cpu" "$mib"
done
"$hone" batch xray "$address" large --last all --budget 1000000 --limit 1h --quiet --json > "$work/fetched.json"
kill "$server"; wait "$server" || true; server=
echo
segments=$(find "$work/data" -path '*large-*' -name '*.log' | sort)
read -r wall cpu mib _ _ < <(cost "$hone" batch xray --segments "$work/data" --only large --no-payload --quiet --json)
row "hone batch xray --segments" "$wall" "$cpu" "$mib"
libs=.hone/kafka/4.3.1
if [ -f "$libs/kafka-tools-4.3.1.jar" ]; then
  read -r wall cpu mib _ lines < <(cost java -Xmx512m -cp "$libs/*" org.apache.kafka.tools.DumpLogSegments --files "$(tr '\n' ',' <<<"$segments" | sed 's/,$//')")
  row "kafka-dump-log" "$wall" "$cpu" "$mib"
  echo "kafka-dump-log printed $lines lines, one for each batch and some for each file"
fi
"$hone" batch xray --segments "$work/data" --only large --quiet --json > "$work/segments.json"
python3 - "$work/fetched.json" "$work/segments.json" <<'PY'
import json, sys
found = [json.load(open(path))["body"]["topics"][0] for path in sys.argv[1:]]
print("batches by Fetch, on the disk:", *[topic["batches"] for topic in found])
PY
