#!/usr/bin/env bash
# What `hone batch whatif` foresees, beside what comes.
#   bench/whatif.sh speed           records a second that a replay takes, on one core. Wanted: 20 million
#   bench/whatif.sh reality [--few] [--loads N] [--seconds N] [--clients LIST]
#       librdkafka, Java and franz-go write topics with one setting, on the embedded broker and on Apache Kafka (bench/kafka.sh); other
#       settings are foreseen from those topics, then sent by the same schedule, and read back: a row for each, the errors, and in the end the table.
#       Takes some 50 minutes of a machine that is quiet; --few is two settings for each client and broker.
#   bench/whatif.sh habits [--only LIST] [--seconds N]
#       twelve settings of librdkafka that a replay has to know: a bound on records, transactions, a thread that waits. Some 7 minutes on the
#       embedded broker, or on BROKER=HOST:PORT.
#   bench/whatif.sh table FILE      rows of an earlier OUT as Markdown
# Environment: HONE (the program; a release build otherwise), BROKERS (hone,kafka), OUT (a file that keeps the rows, as JSON lines).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-target}

speed() {
  cargo build --release --locked -p hone-batch --example replay_speed
  "$target/release/examples/replay_speed"
}

# serve COMMAND...: starts it, waits for its line of readiness, and sets `address`.
serve() {
  : > "$work/ready"
  "$@" > "$work/ready" 2> "$work/broker.log" &
  server=$!
  until grep -q '^ready ' "$work/ready"; do
    kill -0 "$server" 2>/dev/null || { cat "$work/broker.log" >&2; exit 1; }
    sleep 0.1
  done
  address=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$work/ready")
}

stop() {
  [ -z "${server:-}" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}

reality() {
  local hone=${HONE:-}
  if [ -z "$hone" ]; then
    cargo build --release --locked -p hone
    hone=$target/release/hone
  fi
  work=$(mktemp -d)
  trap 'stop; rm -rf "$work"' EXIT
  local extra=()
  if command -v go >/dev/null; then
    (cd examples/clients/franz-go && go build -o "$work/franz-go" .)
    extra+=(--franz-go "$work/franz-go")
  fi
  if command -v mvn >/dev/null && command -v java >/dev/null; then
    mvn -q -f examples/clients/java/pom.xml dependency:copy-dependencies "-DoutputDirectory=$work/jars" >&2
    extra+=(--java "$work/jars")
  fi
  local broker rows=${OUT:-$work/rows}
  for broker in $(tr , ' ' <<< "${BROKERS:-hone,kafka}"); do
    case $broker in
      hone) serve "$hone" broker --data "$work/data" --listen 127.0.0.1:0 --metrics-listen off ;;
      kafka) serve bench/kafka.sh run "$work/kafka" ;;
      *) echo "BROKERS knows hone and kafka" >&2; exit 2 ;;
    esac
    python3 bench/whatif.py --hone "$hone" --broker "$address" --name "$broker" "${extra[@]}" --out "$rows" "$@"
    stop
  done
  python3 bench/whatif.py --table "$rows"
}

habits() {
  local hone=${HONE:-} python=.hone/venv/bin/python
  if [ -z "$hone" ]; then
    cargo build --release --locked -p hone
    hone=$target/release/hone
  fi
  [ -x "$python" ] || { echo "no $python: script/bootstrap --test installs it" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'stop; rm -rf "$work"' EXIT
  address=${BROKER:-}
  [ -n "$address" ] || serve "$hone" broker --data "$work/data" --listen 127.0.0.1:0 --metrics-listen off
  "$python" bench/whatif_habits.py --hone "$hone" --broker "$address" "$@"
}

case ${1:-} in
  speed) speed ;;
  habits) shift; habits "$@" ;;
  reality) shift; reality "$@" ;;
  table) python3 bench/whatif.py --table "$2" ;;
  *) sed -n 2,13p "$0"; exit 2 ;;
esac
