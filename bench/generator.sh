#!/usr/bin/env bash
# What does it cost to send 20,000 single-record requests a second? Hone's wire engine beside kafka-producer-perf-test, the
# tool a user would pick instead, against the same embedded broker, in one run, alternating.
#   bench/generator.sh [ROUNDS]
# Prints CPU (user + system) per request of each generator and their ratio. Needs a JDK and Maven for Kafka's own tools.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
rate=20000
seconds=10
records=$((rate * seconds))
hone=target/release/hone
libs=.hone/kafka-tools
port=${PORT:-29092}

[ -x "$hone" ] || cargo build --release --locked -p hone
if [ ! -d "$libs" ]; then
  echo "fetching Kafka's tools by Maven into $libs" >&2
  pom=$(mktemp -d)
  trap 'rm -rf "$pom"' EXIT
  cat > "$pom/pom.xml" <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.3.1</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
POM
  mvn -q -f "$pom/pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/$libs"
fi

data=$(mktemp -d)
"$hone" broker --listen "127.0.0.1:$port" --metrics off --data "$data" >"$data/out" &
broker=$!
trap 'kill "$broker" 2>/dev/null; wait "$broker" 2>/dev/null; rm -rf "$data" "${pom:-/nonexistent}"' EXIT
for _ in $(seq 100); do grep -q ready "$data/out" && break; sleep 0.1; done

ours() {
  "$hone" load "127.0.0.1:$port" --quiet --json --rate "$rate" --duration "$seconds" --schedule uniform --records 1 --bytes 100 \
    --acks 1 --in-flight 5 --connections 1 --partitions 1 --lateness-limit 10000 \
    | python3 -c '
import json, sys
facts = json.load(sys.stdin)["body"]["facts"]
print(facts["generator_cpu"]["total_s"] * 1e6 / facts["requests"], facts["reached_requests_per_s"])'
}

# batch.size=1 makes a request of each record, as above; the JVM start is part of what its user pays.
theirs() {
  local times
  times=$( { TIMEFORMAT='%U %S'; time java -Xmx512m -cp "$libs/*" org.apache.kafka.tools.ProducerPerformance \
    --topic perf --num-records "$records" --record-size 100 --throughput "$rate" --bootstrap-server "127.0.0.1:$port" \
    --command-property acks=1 linger.ms=0 batch.size=1 enable.idempotence=false max.in.flight.requests.per.connection=5 \
    >"$data/perf" 2>&1; } 2>&1 )
  python3 -c '
import re, sys
user, system = map(float, sys.argv[1].split())
reached = re.findall(r"([0-9.]+) records/sec", open(sys.argv[2]).read())[-1]
print((user + system) * 1e6 / int(sys.argv[3]), reached)' "$times" "$data/perf" "$records"
}

printf '%-28s %18s %14s\n' generator 'CPU µs/request' 'requests/s'
for _ in $(seq "$rounds"); do
  read -r our_cpu our_rate < <(ours)
  read -r their_cpu their_rate < <(theirs)
  printf '%-28s %18.1f %14.0f\n' 'hone load' "$our_cpu" "$our_rate"
  printf '%-28s %18.1f %14.0f\n' 'kafka-producer-perf-test' "$their_cpu" "$their_rate"
  printf '%-28s %18.3f\n' 'ratio' "$(python3 -c "print($our_cpu / $their_cpu)")"
done
