#!/usr/bin/env bash
# Does `hone fetch xray` name what is wrong with consumer groups? Eight kinds of groups by two protocols, on hone-broker and on three nodes of Apache
# Kafka: one is slow, hangs, is skewed, rebalances, has idle members or none; and one is well.
#   bench/fetch-xray.sh [RUNS]      3 runs on each: eight minutes. Exit code 3 when a finding is missing, or one is there that was not planted
# Needs what script/bootstrap --test installs, and what `bench/kafka.sh fetch` fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-3}
hone=$(realpath "${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}")
[ -x "$hone" ] || cargo build --release --locked -p hone
python=${HONE_PYTHON:-.hone/venv/bin/python}
out=$(mktemp -d)
pid= status=0
clean() {
  [ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
  pid=
}
trap 'clean; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# on NAME COMMAND: starts brokers, and looks at the groups there.
on() {
  echo "$1"
  shift
  "$@" > "$out/ready" 2> "$out/log" &
  pid=$!
  until grep -q '^ready' "$out/ready"; do
    kill -0 "$pid" 2>/dev/null || { cat "$out/log" >&2; exit 1; }
    sleep 0.1
  done
  "$python" bench/fetch/groups.py "$hone" "$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$out/ready")" "$runs" || status=$?
  clean
}

on hone-broker "$hone" broker --listen 127.0.0.1:0 --metrics-listen off --data "$out/data"
KAFKA_HEAP=512M on 'Apache Kafka' bench/kafka.sh cluster "$out/kafka" group.initial.rebalance.delay.ms=0
exit "$status"
