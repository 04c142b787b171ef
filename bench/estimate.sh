#!/usr/bin/env bash
# How long the statistics of a comparison take: 100 pairs with their control, all metrics, by bootstrap. Wanted: under 1 s.
#   bench/estimate.sh
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p hone-compare --example estimate_speed
"${CARGO_TARGET_DIR:-target}/release/examples/estimate_speed"
