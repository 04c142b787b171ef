#!/usr/bin/env bash
# A flame graph of a process that runs: where its CPU time goes, over all its threads.
#   bench/flame.sh PID SECONDS OUT.svg
# Samples by the kernel's CPU clock, so that no performance counters are needed. Stacks are unwound from copies by DWARF;
# FRAMES=fp takes frame pointers instead, for a build with RUSTFLAGS=-Cforce-frame-pointers=yes. Needs perf (Debian: linux-perf)
# and the right to watch the process (root, or kernel.perf_event_paranoid at most 2 for one's own, without kernel frames).
set -euo pipefail
if [ $# != 3 ]; then sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; fi
pid=$1 seconds=$2 out=$3
command -v perf >/dev/null || { echo "flame.sh: perf is not installed (Debian: apt-get install linux-perf)" >&2; exit 1; }
[ -d "/proc/$pid" ] || { echo "flame.sh: there is no process $pid" >&2; exit 1; }
samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT
frames=${FRAMES:-dwarf}
[ "$frames" = dwarf ] && frames=dwarf,16384
# Not a multiple of the timer's rate, so that nothing periodic is sampled in step.
perf record -q -e cpu-clock -F 499 --call-graph "$frames" -p "$pid" -o "$samples/perf.data" -- sleep "$seconds" >&2
perf script -i "$samples/perf.data" --no-inline -F comm,tid,ip,sym 2>"$samples/errors" \
  | python3 -B "$(dirname "$0")/flame.py" "$(tr '\0' ' ' < "/proc/$pid/cmdline")" > "$samples/flame.svg" \
  || { cat "$samples/errors" >&2; exit 1; }
mv "$samples/flame.svg" "$out"
echo "$out" >&2
