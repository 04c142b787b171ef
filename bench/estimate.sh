#!/usr/bin/env bash
# How long the statistics of a comparison take: 100 pairs with their control, all metrics, by bootstrap. Wanted: under 1 s.
# Exit code 3: it takes longer.
#   bench/estimate.sh
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p hone-compare --example estimate_speed
told=$("${CARGO_TARGET_DIR:-target}/release/examples/estimate_speed")
echo "$told"
awk -v seconds="$(grep -o '[0-9.]* s$' <<<"$told")" 'BEGIN { exit seconds + 0 < 1 ? 0 : 3 }'
