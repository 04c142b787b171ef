#!/usr/bin/env bash
# Does `hone diagnose --tail` name the cause? Known truths, each again and again:
#   gc         a virtual machine in the way of every request, which collects its whole heap once a second
#   safepoint  the same with a thread that keeps all others waiting for about 200 ms
#   limit      a broker in a control group that may use a few per cent of a CPU
#   disk       a broker on a disk that is slow for a third of a second now and then
#   core       a broker on one core that something more urgent takes for a fifth of a second now and then
#   quiet      none of these
# The named cause must be the planted one, and nothing in quiet.
#   bench/tails.sh [RUNS] [KIND ...]     10 runs of each kind: 20 minutes. Exit code 3 when something does not hold.
# Needs root (control groups, a loop device), and a JDK (script/bootstrap --test).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-10}
[ $# -eq 0 ] || shift
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(gc safepoint limit disk core quiet)
hone=$(realpath "${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}")
[ -x "$hone" ] || cargo build --release --locked -p hone
home=${JAVA_HOME:-$(dirname "$(dirname "$(realpath "$(command -v javac)")")")}
scratch=$(mktemp -d)
children=() groups=() loop=
clean() {
  [ ${#children[@]} -eq 0 ] || kill -9 "${children[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null || true; done
  if mountpoint -q "$scratch/disk"; then umount "$scratch/disk"; fi
  [ -z "$loop" ] || losetup -d "$loop"
  rm -rf "$scratch"
  children=() groups=() loop=
}
trap clean EXIT
trap 'exit 130' INT TERM
"$home/bin/javac" -d "$scratch" crates/hone/tests/tail/Proxy.java

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The broker on a data folder; BROKER and PORT are its process and its port.
broker() {
  PORT=$(port)
  "$hone" broker --listen "127.0.0.1:$PORT" --metrics-listen off --data "$1" ${2:+--advertise "127.0.0.1:$2"} >"$scratch/broker.log" 2>&1 &
  BROKER=$!
  children+=("$BROKER")
  for _ in $(seq 100); do grep -qs '^ready' "$scratch/broker.log" && return; sleep 0.1; done
  echo "tails: the broker did not start" >&2; exit 1
}

# A virtual machine before the broker: LIVE thousand objects, and options.
proxy() {
  local live=$1 turns=$2 front
  shift 2
  front=$(port)
  broker "$scratch/data" "$front"
  "$home/bin/java" "$@" -cp "$scratch" Proxy "$front" "$PORT" "$live" ${turns:+"$turns"} >"$scratch/proxy.log" &
  TARGET=$!
  children+=("$TARGET")
  for _ in $(seq 300); do grep -qs ready "$scratch/proxy.log" && break; sleep 0.1; done
  ADDRESS=127.0.0.1:$front
}

again() { while sleep "$1"; do "$home/bin/jcmd" "$TARGET" "$2" >/dev/null 2>&1 || return 0; done; }

group() { # KIND: a group of the controller, version 1 or 2
  local folder=/sys/fs/cgroup/$1
  [ -d "$folder" ] || folder=/sys/fs/cgroup
  folder=$folder/hone-tails-$$-$RANDOM
  mkdir "$folder"
  groups+=("$folder")
  GROUP=$folder
}

plant() {
  case $1 in
    gc)
      proxy 1500 "" -Xmx512m -XX:+UseSerialGC
      again 1 GC.run & children+=($!) ;;
    safepoint)
      proxy 10 100000000 -Xmx128m -XX:-UseCountedLoopSafepoints -XX:LoopStripMiningIter=0
      again 1 Thread.print & children+=($!) ;;
    limit)
      broker "$scratch/data"
      TARGET=$BROKER ADDRESS=127.0.0.1:$PORT
      group cpu
      if [ -e "$GROUP/cpu.max" ]; then echo "3000 100000" >"$GROUP/cpu.max"; else echo 3000 >"$GROUP/cpu.cfs_quota_us"; fi
      echo "$BROKER" >"$GROUP/cgroup.procs" ;;
    disk)
      truncate -s 512M "$scratch/image"
      mkfs.ext4 -q -F "$scratch/image"
      loop=$(losetup --find --show "$scratch/image")
      mkdir "$scratch/disk"
      mount "$loop" "$scratch/disk"
      broker "$scratch/disk/data"
      TARGET=$BROKER ADDRESS=127.0.0.1:$PORT
      group blkio
      echo "$BROKER" >"$GROUP/cgroup.procs"
      slow_now_and_then "$(cat "/sys/block/$(basename "$loop")/dev")" & children+=($!) ;;
    core)
      broker "$scratch/data"
      TARGET=$BROKER ADDRESS=127.0.0.1:$PORT
      taskset --all-tasks --pid --cpu-list 0 "$BROKER" >/dev/null
      urgent_now_and_then & children+=($!) ;;
    quiet)
      broker "$scratch/data"
      TARGET=$BROKER ADDRESS=127.0.0.1:$PORT ;;
  esac
}

# Before everything that is scheduled fairly.
urgent_now_and_then() {
  while sleep 1.3; do
    timeout 0.2 taskset --cpu-list 0 chrt --fifo 10 sh -c 'while :; do :; done' || true
  done
}

slow_now_and_then() {
  local limit=$GROUP/blkio.throttle.write_bps_device slow="$1 40000" fast="$1 0"
  [ ! -e "$GROUP/io.max" ] || limit=$GROUP/io.max slow="$1 wbps=40000" fast="$1 wbps=max"
  while sleep 1.3; do
    echo "$slow" >"$limit"
    sleep 0.35
    echo "$fast" >"$limit"
  done
}

named() {
  python3 -c '
import json, sys
body = json.load(open(sys.argv[1]))["body"]
kinds = {}
for cause in body["causes"]:
    if cause["is_beyond_chance"]:
        kinds[cause["kind"]] = kinds.get(cause["kind"], 0) + cause["explained"]
kind, explained = max(kinds.items(), key=lambda one: one[1], default=("none", 0))
enough = 3 * explained >= body["slow_count"] and explained
print(kind if enough else "none", explained, body["slow_count"], "%.1f" % (body["threshold_us"] / 1e3))
' "$1"
}

good=yes
for kind in "${kinds[@]}"; do
  case $kind in gc | safepoint) truth=pause ;; limit) truth=throttling ;; disk) truth=file ;; core) truth=run-queue ;; *) truth=none ;; esac
  right=0
  for run in $(seq "$runs"); do
    plant "$kind"
    "$hone" diagnose --tail "$ADDRESS" --pid "$TARGET" --rate 300 --duration 12s --output "$scratch/runs" --json --quiet >"$scratch/tail.json"
    read -r name explained slow threshold <<<"$(named "$scratch/tail.json")"
    echo "$kind $run: $name, $explained of $slow slow requests, slower than $threshold ms"
    if [ "$name" = "$truth" ]; then right=$((right + 1)); fi
    clean 2>/dev/null
    scratch=$(mktemp -d)
    "$home/bin/javac" -d "$scratch" crates/hone/tests/tail/Proxy.java
  done
  echo "$kind: named right in $right of $runs"
  [ "$right" = "$runs" ] || good=no
done
[ "$good" = yes ] || exit 3
