#!/usr/bin/env bash
# What does it cost to send single-record requests, and how fast can it be done?
#   bench/generator.sh [ROUNDS]
# First CPU (user + system) per request at 20,000 requests/s against the same embedded broker, in one run, alternating: Hone's wire
# engine beside what a user would pick instead, each made to send one record a request: kafka-producer-perf-test, librdkafka (by
# kcat) and franz-go. All of them get their records in turns of a millisecond, since none of the others can space them evenly;
# what even spacing costs Hone stands beside it. Then, into a sink that acknowledges at once on the other core: the highest rate at which one core keeps the
# schedule, and how late it is at 20,000 requests/s. What is not installed is left out and named. Needs a JDK and Maven, kcat
# (apt-get install kcat), Go.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
rate=20000
seconds=10
in_flight=64
records=$((rate * seconds))
target=${CARGO_TARGET_DIR:-target}
hone=$target/release/hone
sink=$target/release/examples/sink
libs=.hone/kafka-tools
port=${PORT:-29092}
work=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

[ -x "$hone" ] && [ -x "$sink" ] || cargo build --release --locked -p hone -p hone-load --bin hone --example sink
if [ ! -d "$libs" ] && command -v mvn >/dev/null; then
  echo "fetching Kafka's tools by Maven into $libs" >&2
  cat > "$work/pom.xml" <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.3.1</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
POM
  mvn -q -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/libs"
  mkdir -p "$(dirname "$libs")"
  mv "$work/libs" "$libs"
fi
others=()
if [ -d "$libs" ] && command -v java >/dev/null; then others+=(kafka-producer-perf-test); else echo 'left out: kafka-producer-perf-test (no JDK or Maven)'; fi
if command -v kcat >/dev/null; then others+=(librdkafka); else echo 'left out: librdkafka (no kcat)'; fi
if command -v go >/dev/null && (cd bench/generator/franz && go build -o "$work/franz" .); then
  others+=(franz-go)
else
  echo 'left out: franz-go (no Go, or its module could not be fetched)'
fi

"$hone" broker --listen "127.0.0.1:$port" --metrics-listen off --data "$work/data" >"$work/broker" &
started+=($!)
for _ in $(seq 100); do grep -q ready "$work/broker" && break; sleep 0.1; done
grep -q ready "$work/broker" || { echo "generator.sh: the broker did not start on 127.0.0.1:$port; PORT names another port" >&2; exit 1; }
broker="127.0.0.1:$port"

# Prints a field of a record as hone load gives it.
field() { python3 -c 'import json, sys; body = json.load(open(sys.argv[1]))["body"]; facts = body["facts"]; print(eval(sys.argv[2]))' "$@"; }

wire() {
  "$hone" load "$broker" --quiet --json --rate "$rate" --duration "$seconds" --schedule "$1" --records 1 --bytes 100 \
    --acks 1 --in-flight "$in_flight" --connections 1 --partitions 1 --max-lateness 10s >"$work/window"
  field "$work/window" 'facts["generator_cpu"]["total_s"] * 1e6 / facts["requests"]'
}

# CPU per request of a command that sends $records of them.
cost() {
  local cpu
  cpu=$(python3 bench/generator/run.py "$@" 2>"$work/said") || { cat "$work/said" >&2; return 1; }
  python3 -c 'import sys; print(float(sys.argv[1]) * 1e6 / int(sys.argv[2]))' "$cpu" "$records"
}

# batch.size=1 makes a request of each record; the JVM's start is part of what its user pays.
kafka-producer-perf-test() {
  cost java -Xmx512m -cp "$libs/*" org.apache.kafka.tools.ProducerPerformance \
    --topic perf --num-records "$records" --record-size 100 --throughput "$rate" --bootstrap-server "$broker" \
    --command-property acks=1 linger.ms=0 batch.size=1 enable.idempotence=false max.in.flight.requests.per.connection="$in_flight"
}

librdkafka() {
  cost --lines "$rate" "$seconds" 100 kcat -P -b "$broker" -t perf -p 0 -X acks=1 -X linger.ms=0 -X batch.num.messages=1 \
    -X max.in.flight.requests.per.connection="$in_flight" -X queue.buffering.max.messages=1000000
}

# It says itself how many requests it made; fewer than records would make it look too cheap.
franz-go() {
  cost "$work/franz" "$broker" perf "$rate" "$seconds" "$in_flight"
  local made
  made=$(awk '{ print $1 }' "$work/said")
  [ "$made" -ge "$records" ] || echo "franz-go made only $made requests of $records records" >&2
}

echo "load average $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) cores"
printf '%-28s %18s %18s\n' generator 'CPU µs/request' 'hone / this'
for _ in $(seq "$rounds"); do
  ours=$(wire bursts:1ms)
  printf '%-28s %18.1f\n' 'hone load' "$ours"
  printf '%-28s %18.1f\n' 'hone load, evenly spaced' "$(wire uniform)"
  for other in "${others[@]}"; do
    theirs=$("$other")
    printf '%-28s %18.1f %18.3f\n' "$other" "$theirs" "$(python3 -c "print($ours / $theirs)")"
  done
done

"$sink" 127.0.0.1:0 >"$work/sink" &
started+=($!)
for _ in $(seq 100); do grep -q ready "$work/sink" && break; sleep 0.1; done
to=$(sed -n 's/^ready kafka=//p' "$work/sink")
# The generator has one core, the sink the other.
if [ "$(nproc)" -gt 1 ]; then taskset -pc 1 "${started[1]}" >/dev/null; fi
into_sink() {
  taskset -c 0 "$hone" load "$to" --topic sink --quiet --json --rate "$1" --duration 5 --schedule "$2" --records 1 --bytes 100 \
    --acks 1 --connections 4 --in-flight 256 --warmup 20000 --pid $$ >"$work/window" || true
}
lag='"%s, reached %.0f/s, CPU %.2f µs/request, lag p99 %.0f µs" % (body["outcome"] if isinstance(body["outcome"], str) else list(body["outcome"])[0], facts["reached_requests_per_s"], facts["generator_cpu"]["total_s"] * 1e6 / facts["requests"], sorted(point["generator_lag_us_p99"] for point in body["series"])[len(body["series"]) // 2])'
echo
echo 'into a sink, one core; lag is the median of the seconds'
for asked in 20000 50000 100000 150000 200000 300000; do
  into_sink "$asked" poisson
  printf '%9s requests/s asked: %s\n' "$asked" "$(field "$work/window" "$lag")"
done
