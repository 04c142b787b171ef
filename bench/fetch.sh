#!/usr/bin/env bash
# How near `hone fetch whatif` comes to the truth: fetches per second of real consumers on real brokers, as their brokers count them.
#   bench/fetch.sh [SECONDS]     the embedded broker and Apache Kafka, three clients, four settings each: 24 windows (8 s each, 6 minutes)
# Exit code 3 when fewer than 21 of 24 lie within the predicted range. Needs what script/bootstrap --test installs.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x "${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}" ] || cargo build --release --locked -p hone
bench/kafka.sh fetch
exec "${HONE_PYTHON:-.hone/venv/bin/python}" bench/fetch/reality.py "${1:-8}"
