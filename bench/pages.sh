#!/usr/bin/env bash
# How fast pages are: the first paint of the report of a comparison with many pairs, in headless Chromium, and the time that `hone serve` takes to
# answer its first page over many runs. The runs are made of the comparison in fixtures/version-0.1. Printed are medians.
# Wanted: 1 s until the first paint, and 300 ms on the server. Exit code 3: a goal is missed.
#   bench/pages.sh [PAIRS] [RUNS]     200 pairs and 5,000 runs unless said
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-200} runs=${2:-5000}
for tool in python3 curl chromium; do
  command -v "$tool" >/dev/null || { echo "pages: there is no $tool; run script/bootstrap --test" >&2; exit 2; }
done
if [ -z "${HONE:-}" ]; then
  cargo build --release --locked --quiet -p hone
  HONE="${CARGO_TARGET_DIR:-target}/release/hone"
fi
hone=$(realpath "$HONE")
part=$(realpath bench/pages.py)
archive=$(realpath fixtures/version-0.1/runs.tar.gz)
folder=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }; rm -rf "$folder"; }
trap stop EXIT
cd "$folder"
mkdir fixture
tar -xzf "$archive" -C fixture ./runs/compare-001

python3 "$part" pairs fixture/runs/compare-001 large-001 "$pairs"
"$hone" report large-001 -o report.html >/dev/null
python3 "$part" runs fixture/runs/compare-001 runs "$runs"
"$hone" serve runs --listen 127.0.0.1:0 --quiet >served &
server=$!
until grep -q 'http://' served; do kill -0 "$server"; sleep 0.1; done
address=$(grep -o 'http://[^ ]*' served)
until curl -sf "${address}records.json" | python3 "$part" complete "$runs"; do kill -0 "$server"; sleep 0.5; done

missed=no
row() { printf '%-36s %10s %18s %10s\n' "$@"; }
# goal NAME BYTES MILLISECONDS WANTED
goal() {
  row "$1" "$(awk -v bytes="$2" 'BEGIN { printf "%.0f KiB", bytes / 1024 }')" "$3 ms" "$4 ms"
  awk -v found="$3" -v wanted="$4" 'BEGIN { exit found <= wanted ? 0 : 1 }' || missed=yes
}
paint() { python3 "$part" paint "$1" "$(command -v chromium)"; }
# The median of 20 answers in milliseconds.
answer() {
  for _ in $(seq 20); do curl -sf -o answer -w '%{time_total}\n' "$1"; done | sort -g | awk '{ all[NR] = $1 } END { printf "%.1f", 500 * (all[10] + all[11]) }'
}
row page size "first paint" wanted
goal "report of $pairs pairs" "$(stat -c %s report.html)" "$(paint "file://$folder/report.html")" 1000
home_ms=$(answer "$address")
goal "home of hone serve, $runs runs" "$(stat -c %s answer)" "$(paint "$address")" 1000
row page size "answer, server" wanted
goal "home of hone serve, $runs runs" "$(stat -c %s answer)" "$home_ms" 300
[ "$missed" = no ] || exit 3
