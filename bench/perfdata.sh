#!/usr/bin/env bash
# How fast samples are read: time and most memory of `hone heatmap perf.data` beside `perf script` on the same data.
#   bench/perfdata.sh [SECONDS]     30 seconds of a busy program at 20000 samples a second unless said; needs perf and cc
# Samples carry call chains, as they mostly do, so that a second is about a megabyte and more; the size is told.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
for tool in perf cc; do
  command -v "$tool" >/dev/null || { echo "perfdata: there is no $tool; run script/bootstrap --test" >&2; exit 2; }
done
cargo build --release --quiet -p hone
hone=$(realpath "${CARGO_TARGET_DIR:-target}/release/hone")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Many functions that are called in turn, by two threads, so that samples lie at many places.
{
  echo '#include <pthread.h>'
  echo '#include <stdlib.h>'
  echo '#include <time.h>'
  echo 'volatile unsigned long sum; static time_t until;'
  for function in $(seq 500); do
    echo "__attribute__((noinline)) static void f$function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i * $function; }"
  done
  echo 'static void (*const all[])(unsigned long) = {'
  for function in $(seq 500); do echo "f$function,"; done
  echo '};'
  echo 'static void *run(void *none) { while (time(0) < until) for (int i = 0; i < 500; i++) all[i](200); return none; }'
  echo 'int main(int words, char **word) { until = time(0) + (words > 1 ? atoi(word[1]) : 1); pthread_t other;'
  echo '  pthread_create(&other, 0, run, 0); run(0); return pthread_join(other, 0); }'
} >"$work/busy.c"
cc -O1 -pthread -o "$work/busy" "$work/busy.c"
perf record --quiet -N -g -e cpu-clock -F 20000 -o "$work/perf.data" -- "$work/busy" "$seconds" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }

# Wall seconds and most memory in KiB of a command, on one line.
cost() {
  python3 - "$@" <<'PY'
import resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if done.returncode:
    sys.exit(f"{sys.argv[1]} ended with {done.returncode}")
print(f"{time.monotonic() - start:.2f}", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}

cat "$work/perf.data" >/dev/null
read -r hone_s hone_kib <<<"$(cost "$hone" heatmap "$work/perf.data" -o "$work/x.json")"
read -r perf_s perf_kib <<<"$(cost perf script -i "$work/perf.data")"
bytes=$(stat -c %s "$work/perf.data")
awk -v bytes="$bytes" -v hone_s="$hone_s" -v hone_kib="$hone_kib" -v perf_s="$perf_s" -v perf_kib="$perf_kib" 'BEGIN {
  printf "perf.data of %.0f MB\n%-14s %8s %10s\n", bytes / 1e6, "", "seconds", "MiB"
  printf "%-14s %8.2f %10.0f\n", "hone heatmap", hone_s, hone_kib / 1024
  printf "%-14s %8.2f %10.0f\n", "perf script", perf_s, perf_kib / 1024
  printf "ratio %.3f of the time of perf script\n", hone_s / perf_s
}'
