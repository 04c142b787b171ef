#!/usr/bin/env bash
# The settings of a published guide for low tail latency, tried one by one on this machine and taken back, those that can't matter here
# among them, and all together under two durability classes. Needs root, and a machine on which nobody else measures. About 22 minutes.
#
#   bench/host-try.sh                 the embedded broker, then Apache Kafka (bench/kafka.sh: one node, its own defaults)
#   bench/host-try.sh --no-kafka      the embedded broker alone
#   bench/host-try.sh --small         three minutes or so; the figures then say little
#   HONE=path RATE=requests/s PROFILE=name DATA=folder RUNS=folder bench/host-try.sh
#
# DATA is a folder on the disk that shall hold the brokers' data (here: where this is). Leaves the records and pages in $RUNS/host-try-NNN, and the
# tables of all parts in $RUNS/host-try.md. What was changed is compared with what was there before: a difference is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

kafka=1 small=''
while [ $# -gt 0 ]; do
  case $1 in
    --no-kafka) kafka=''; shift ;;
    --small) small=1; shift ;;
    *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
  esac
done

hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || { echo "$hone is not there; build it: cargo build --release -p hone" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "settings of the kernel are root's: run this as root" >&2; exit 1; }
out=${RUNS:-runs}
profile=${PROFILE:-field-guide}
mkdir -p "$out"

# p99.9 is told from 10,000 requests in a window on.
load=(--rate "${RATE:-2700}" --bytes 1000 --connections 4 --partitions 12 --duration 4 --warmup 3000 --settle 0.5 --rounds 8)
if [ -n "$small" ]; then
  load=(--rate "${RATE:-1500}" --bytes 1000 --connections 4 --partitions 4 --duration 1 --warmup 100 --settle 0.2 --rounds 5
    --keep-disturbed --max-lateness 5s)
fi

data=$(mktemp -d "${DATA:-$PWD}/host-try.XXXX")
server=''
cleanup() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  # A run that failed is the one that may have left something.
  [ -f "$data/after" ] || [ ! -f "$data/before" ] || is_as_before || true
  rm -rf "$data"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

is_as_before() {
  settings > "$data/after"
  diff "$data/before" "$data/after" >&2 || { echo "a setting is not what it was before; hone host status names what is set" >&2; return 1; }
}

settings() {
  local file
  for file in /proc/sys/vm/{swappiness,dirty_ratio,dirty_bytes,dirty_background_ratio,dirty_background_bytes,dirty_expire_centisecs} \
    /sys/kernel/mm/transparent_hugepage/{enabled,defrag} /sys/block/*/queue/{scheduler,nr_requests,read_ahead_kb,wbt_lat_usec} \
    /sys/block/*/queue/iosched/*; do
    [ ! -r "$file" ] || echo "$file $(cat "$file" 2>/dev/null || true)"
  done
}

# part TITLE ARGUMENT...: one run, its table into the file of all. 3 says that something is worse, which is an answer.
part() {
  local title=$1 code=0
  shift
  echo "== $title" >&2
  "$hone" host try "$profile" --all --output "$out" "${load[@]}" "$@" --markdown > "$data/part.md" || code=$?
  [ "$code" = 0 ] || [ "$code" = 3 ] || { cat "$data/part.md" >&2; exit 1; }
  { echo "### $title"; echo; cat "$data/part.md"; echo; } >> "$out/host-try.md"
}

: > "$out/host-try.md"
settings > "$data/before"

mkdir "$data/embedded"
part "$profile, knob by knob: the embedded broker" --data "$data/embedded" --acks 1

if [ -n "$kafka" ]; then
  bench/kafka.sh fetch
  bench/kafka.sh run "$data/kafka" > "$data/ready" 2> "$data/err" &
  server=$!
  for _ in $(seq 240); do
    address=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$data/ready")
    [ -z "$address" ] || break
    kill -0 "$server" 2>/dev/null || { tail -5 "$data/err" >&2; exit 1; }
    sleep 0.5
  done
  [ -n "$address" ] || { echo "Apache Kafka was not ready after two minutes" >&2; exit 1; }
  target=(--target "$address" --storage page-cache --data "$data/kafka/data")
  part "$profile, knob by knob: Apache Kafka" "${target[@]}" --acks 1
else
  target=(--data "$data/embedded")
fi
part "$profile × acks" "${target[@]}" --factorial 1,all

is_as_before
echo "Every setting is what it was before." >> "$out/host-try.md"
cat "$out/host-try.md"
