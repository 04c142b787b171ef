#!/usr/bin/env bash
# How fast `hone batch xray` reads: from memory by batch size, and a whole topic of the embedded broker beside the same Fetch loop that looks at
# nothing, beside kcat, and beside Kafka's dump-log on the same segments. CPU and wall seconds of each, most memory, and whether all count
# the same batches.
# Exit code 3: a ratio is not what is wanted.
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

"$hone" broker --listen 127.0.0.1:0 --metrics-listen off --data "$work/data" --default-partitions 4 > "$work/ready" &
server=$!
until grep -q ready "$work/ready"; do kill -0 "$server"; sleep 0.1; done
address=$(sed -n 's/.*kafka=\([^ ]*\).*/\1/p' "$work/ready")
# Metadata makes the topic.
kcat -b "$address" -L -t large >/dev/null 2>&1
# Batches of 10 records of 400 bytes; by the wire engine, whose frames are made before.
seconds=$((gib * 1024 / 40))
"$hone" load "$address" --topic large --rate 10000 --records 10 --bytes 400 --acks 1 --duration "$seconds" --quiet --max-lateness 60s \
  --json > "$work/load.json" || { echo "xray.sh: the load failed; a smaller topic (bench/xray.sh 1) or a quieter machine" >&2; exit 1; }

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
# each NAME COMMAND...: four times in turn with the others; CPU seconds are kept for the ratios.
each() {
  local name=$1
  read -r wall cpu mib code _ < <(cost "${@:2}")
  [ "$code" = 0 ] || { echo "xray.sh: $name failed" >&2; exit 1; }
  row "$name" "$wall" "$cpu" "$mib"
  printf '%s\t%s\t%s\n' "$name" "$wall" "$cpu" >> "$work/rows"
}
xrayed=("$hone" batch xray "$address" large --last all --read-limit 1TiB --read-timeout 1h --no-replay --quiet --json)
reader() {
  case $1 in
    loop) each "the Fetch loop alone" "$built/examples/raw_fetch" "$address" large ;;
    headers) each "hone batch xray --no-payload" "${xrayed[@]}" --no-payload ;;
    all) each "hone batch xray" "${xrayed[@]}" ;;
    kcat) each "kcat, which prints nothing" kcat -b "$address" -C -t large -o beginning -e -q -f '' ;;
  esac
}
# Each round in another order: whoever reads first finds colder caches.
for order in "loop headers all kcat" "kcat all headers loop" "all loop kcat headers" "headers kcat loop all"; do
  for which in $order; do reader "$which"; done
done
"${xrayed[@]}" > "$work/fetched.json"
kill "$server"; wait "$server" || true; server=
echo
segments=$(find "$work/data" -path '*large-*' -name '*.log' | sort)
each "hone batch xray --segments" "$hone" batch xray --segments "$work/data" --topic large --no-payload --no-replay --quiet --json
libs=.hone/kafka/4.3.1
if [ -f "$libs/kafka-tools-4.3.1.jar" ]; then
  read -r wall cpu mib code lines < <(cost java -Xmx512m -cp "$libs/*" org.apache.kafka.tools.DumpLogSegments --files "$(tr '\n' ',' <<<"$segments" | sed 's/,$//')")
  [ "$code" = 0 ] || { echo "xray.sh: kafka-dump-log failed" >&2; exit 1; }
  row "kafka-dump-log" "$wall" "$cpu" "$mib"
  printf '%s\t%s\t%s\n' kafka-dump-log "$wall" "$cpu" >> "$work/rows"
  echo "kafka-dump-log printed $lines lines, one for each batch and some for each file"
fi
"$hone" batch xray --segments "$work/data" --topic large --no-replay --quiet --json > "$work/segments.json"
python3 - "$work/fetched.json" "$work/segments.json" "$work/rows" <<'PY'
import collections, json, statistics, sys
found = [json.load(open(path))["body"]["topics"][0]["batches"] for path in sys.argv[1:3]]
print("batches by Fetch, on the disk:", *found)
rows = collections.defaultdict(list)
for line in open(sys.argv[3], encoding="utf-8"):
    name, wall, cpu = line.rstrip("\n").split("\t")
    rows[name].append((float(wall), float(cpu)))
middle = {name: [statistics.median(column) for column in zip(*of)] for name, of in rows.items()}
missed = []
def ratio(one, other, which, what, wanted):
    if one in middle and other in middle:
        found = middle[one][which] / middle[other][which]
        print(f"{one} / {other}: {found:.2f} of the {what} (wanted: {wanted})")
        if found < wanted:
            missed.append(one)
ratio("the Fetch loop alone", "hone batch xray --no-payload", 0, "wall time", 0.80)
ratio("kcat, which prints nothing", "hone batch xray --no-payload", 1, "CPU", 5)
ratio("kafka-dump-log", "hone batch xray --segments", 1, "CPU", 5)
if found[0] != found[1]:
    sys.exit("the counts differ")
sys.exit(3 if missed else 0)
PY
