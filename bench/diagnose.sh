#!/usr/bin/env bash
# What tracing costs: CPU of a broker for the same requests, and of a compiler for the same source, as it is, under qemu-user alone, with Hone's tracer (counts; counts and caches; those
# and windows), and under callgrind with addresses of instructions. One after the other, each from a fresh start.
#   bench/diagnose.sh [REQUESTS]     10000 requests of one record at 500 a second unless said; needs qemu-user and valgrind
set -euo pipefail
# What fails in a measurement ends it: nothing of it is a figure.
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
requests="${1:-10000}"
for tool in "qemu-$(uname -m)" valgrind; do
  command -v "$tool" >/dev/null || { echo "diagnose: there is no $tool; run script/bootstrap --test" >&2; exit 2; }
done
cargo build --release --quiet -p hone -p hone-broker
target="${CARGO_TARGET_DIR:-target}/release"
hone=$(realpath "$target/hone") broker=$(realpath "$target/hone-broker") qemu="qemu-$(uname -m)"
work=$(mktemp -d)
# The broker is started in a subshell, whose variables this one does not see.
trap '[ ! -s "$work/pid" ] || kill -9 "$(cat "$work/pid")" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# The tracer comes with a diagnosis.
"$hone" diagnose --quiet -o "$work" -- true >/dev/null
tracer="$work/diagnosis-001/aids/tracer.so"
mkdir "$work/trace"
port=19392

cpu_ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

# Ticks of CPU that the requests cost.
cost() {
  local pid try serves=no before after
  rm -rf "$work/data"
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "diagnose: something listens on 127.0.0.1:$port already" >&2; exit 1; fi
  "$@" "$broker" --listen "127.0.0.1:$port" --metrics-listen 127.0.0.1:0 --data "$work/data" >"$work/log" 2>&1 &
  pid=$!
  echo "$pid" >"$work/pid"
  for try in $(seq 600); do
    if "$hone" load --quiet --rate 50 --duration 200ms --warmup 1 "127.0.0.1:$port" >/dev/null 2>&1; then serves=yes; break; fi
    [ -d "/proc/$pid" ] || break
    sleep 0.1
  done
  [ "$serves" = yes ] || { echo "diagnose: the broker did not serve under: $*" >&2; tail -n 5 "$work/log" >&2; exit 1; }
  before=$(cpu_ticks "$pid")
  "$hone" load --quiet --rate 500 --duration $((requests / 500)) --warmup 100 --timeout 60s "127.0.0.1:$port" >/dev/null
  after=$(cpu_ticks "$pid")
  kill "$pid"; wait "$pid" 2>/dev/null || true
  rm "$work/pid"
  echo $((after - before))
}

# Hundredths of a second of CPU that the compiler proper takes for a source of 400 functions.
compiles() {
  rm -rf "$work/trace"; mkdir "$work/trace"
  local times
  TIMEFORMAT=%U
  times=$( { time "$@" "$cc1" -quiet -O2 "$work/functions.i" -o /dev/null >/dev/null 2>"$work/log"; } 2>&1 ) ||
    { echo "diagnose: the compiler failed under: $*" >&2; tail -n 5 "$work/log" >&2; exit 1; }
  awk -v seconds="$times" 'BEGIN { printf "%d", 100 * seconds }'
}

table() { # measure by $1 what each tool costs
  local measure=$1 native name
  native=$("$measure" env)
  row() {
    local ticks
    ticks=$("$measure" "${@:2}")
    awk -v name="$1" -v ticks="$ticks" -v native="$native" \
      'BEGIN { printf "%-34s %8.2f %8.1f\n", name, ticks / 100, ticks / (native > 0 ? native : 1) }'
  }
  awk -v ticks="$native" 'BEGIN { printf "%-34s %8.2f %8.1f\n", "as it is", ticks / 100, 1 }'
  row "qemu-user alone" "$qemu"
  row "counts" "$qemu" -plugin "$tracer,folder=$work/trace,caches=off"
  row "counts and caches" "$qemu" -plugin "$tracer,folder=$work/trace,caches=on"
  row "counts, caches and windows" "$qemu" -plugin "$tracer,folder=$work/trace,caches=on,period=2000000,window=50000"
  row "callgrind --dump-instr=yes" valgrind --tool=callgrind --dump-instr=yes "--callgrind-out-file=$work/callgrind.out"
}

printf '%-34s %8s %8s\n' "$requests requests" "CPU s" "ratio"
table cost
cc1=$(gcc -print-prog-name=cc1)
for number in $(seq 0 399); do
  printf 'int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) { switch (a[i] %% %d) { case 0: s += a[i]; break; case 1: s ^= i << %d; break; default: s -= a[i] * %d; } if (s > %d00) s /= 3; } return s; }\n' \
    "$number" "$number" $((number % 7 + 2)) $((number % 5)) "$number" "$number"
done >"$work/functions.i"
printf '\n%-34s %8s %8s\n' "a compiler" "CPU s" "ratio"
table compiles
