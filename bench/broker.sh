#!/usr/bin/env bash
# How fast is hone-broker beside Apache Kafka? Both in one run, alternating, under the same client (`hone load`).
#   bench/broker.sh [--quick] [--output NAME] [--data DIR] [ROW...]
# Rows: a CPU and latency of a single-record request   b highest rate with p99 < 10 ms   c acks=all with fsync
#       d validated and recompressed topic             e start, recovery, memory, reading (or e1, e2, e3 of it)
#       f 10,000 idle connections
# Prints a Markdown table and leaves NAME.md and NAME.jsonl (target/bench/broker). About 50 minutes with all rows, two
# minutes a row with --quick. Needs Python 3.11, a JDK, and Maven the first time. On ^C nothing stays behind.
# Ends with 3 where all was measured and a goal is missed.
# Environment: HONE_BROKER (another build of the broker), HONE_BROKER_ARGS (more arguments for it), KAFKA_HEAP (1G).
set -euo pipefail
cd "$(dirname "$0")/.."
case " $* " in
  *" --help "* | *" -h "*) ;;
  *)
    cargo build --release --locked -p hone -p hone-broker --bins --examples >&2
    bench/kafka.sh fetch
    ;;
esac
exec python3 -B bench/broker "$@"
