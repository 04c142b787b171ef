#!/usr/bin/env bash
# Apache Kafka on loopback, to measure beside: one node (KRaft), with the defaults of its own server.properties and the JVM
# options of its own start script. Needs a JDK (17 or newer) and, the first time, Maven.
#   bench/kafka.sh fetch                 its jars and the JMX exporter by Maven into .hone/kafka; does nothing when they are there
#   bench/kafka.sh run DIR [KEY=VALUE]   runs it over DIR (formatted when it is new) with more properties, until SIGTERM or ^C
#   bench/kafka.sh format DIR [KEY=VALUE]   only fills DIR for a node on PORT and CONTROLLER_PORT: server.properties and a formatted log folder
#   bench/kafka.sh cluster DIR [KEY=VALUE]   runs three nodes over DIR/1, DIR/2 and DIR/3, topics with three replicas
# `run` prints `ready kafka=ADDR pid=N` once it serves, as hone-broker does; `cluster` prints `ready kafka=ADDR pids=N,N,N` with the
# first node's address. Logs are server.log in each folder.
# Environment: PORT, CONTROLLER_PORT (free ones are found otherwise), KAFKA_HEAP (1G), METRICS_PORT (serves the first node's metrics there by
# the JMX exporter, under the names of its example rules for Kafka; off otherwise).
set -euo pipefail
version=4.3.1
root=$(cd "$(dirname "$0")/.." && pwd)
libs=$root/.hone/kafka/$version
exporter_version=1.0.1
exporter=$root/.hone/kafka/jmx-exporter/jmx_prometheus_javaagent-$exporter_version.jar

die() { printf 'kafka.sh: %s\n' "$*" >&2; exit 1; }

fetch() {
  [ ! -f "$libs/kafka-tools-$version.jar" ] || return 0
  command -v mvn >/dev/null || die "Kafka's jars are fetched by Maven, which is not installed (Debian: apt-get install maven)"
  echo "fetching Apache Kafka $version by Maven into $libs" >&2
  mkdir -p "$(dirname "$libs")"
  local part
  part=$(mktemp -d "$libs.part.XXXX")
  # shellcheck disable=SC2064  # the name as it is now
  trap "rm -rf '$part'" EXIT
  cat > "$part/pom.xml" <<POM
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
</dependencies></project>
POM
  # Said aloud, since `set -e` is off wherever the caller tests what this answers.
  mvn -q -B -ntp -f "$part/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$part/libs" \
    || die "Maven could not fetch Apache Kafka; what there was is as it was"
  [ -f "$part/libs/kafka-tools-$version.jar" ] || die "Maven fetched no Apache Kafka; what there was is as it was"
  # Whole or not at all: a broken download is not taken for Kafka the next time.
  rm -rf "$libs"
  mv "$part/libs" "$libs"
}

fetch_exporter() {
  [ ! -f "$exporter" ] || return 0
  command -v mvn >/dev/null || die "the JMX exporter is fetched by Maven, which is not installed (Debian: apt-get install maven)"
  echo "fetching the JMX exporter $exporter_version by Maven into $(dirname "$exporter")" >&2
  mvn -q -B -ntp dependency:copy -Dartifact="io.prometheus.jmx:jmx_prometheus_javaagent:$exporter_version" \
    -DoutputDirectory="$(dirname "$exporter")"
}

# Below the range from which the kernel takes ports for others: Kafka binds them seconds later.
free_ports() {
  python3 -c '
import random, socket, sys
found = []
while len(found) < int(sys.argv[1]):
    port = random.randrange(20000, 32000)
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        continue
    found.append(port)
print(*found)' "$1"
}

# properties ID PORT CONTROLLER_PORT VOTERS REPLICAS [KEY=VALUE]
properties() {
  cat <<P
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$4
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$3
advertised.listeners=PLAINTEXT://127.0.0.1:$2
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$dir/data
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
num.recovery.threads.per.data.dir=2
auto.create.topics.enable=false
default.replication.factor=$5
offsets.topic.replication.factor=$5
transaction.state.log.replication.factor=$5
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=$5
share.coordinator.state.topic.min.isr=1
P
  printf '%s\n' "${@:6}"
}

logging() {
  cat <<'L'
Configuration:
  status: WARN
  Appenders: {Console: {name: OUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: [{ref: OUT}]}}
L
}

# Sums of what Kafka counts, named as the exporter's example for Kafka names them.
exporter_rules() {
  cat <<'R'
lowercaseOutputName: true
includeObjectNames:
  - "kafka.server:type=BrokerTopicMetrics,*"
  - "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
  - "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"
  - "kafka.server:type=DelayedProduceMetrics,*"
  - "kafka.network:type=RequestChannel,name=RequestQueueSize"
  - "kafka.log:type=LogFlushStats,*"
rules:
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+), (.+)=(.+)><>Count", name: "kafka_$1_$2_$3_total", type: COUNTER, labels: {"$4": "$5", "$6": "$7"}}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+)><>Count", name: "kafka_$1_$2_$3_total", type: COUNTER, labels: {"$4": "$5"}}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*><>Count", name: "kafka_$1_$2_$3_total", type: COUNTER}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+), (.+)=(.+)><>Count", name: "kafka_$1_$2_$3_count", type: UNTYPED, labels: {"$4": "$5"}}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+), (.+)=(.*)><>(\\d+)thPercentile", name: "kafka_$1_$2_$3", type: GAUGE, labels: {"$4": "$5", quantile: "0.$6"}}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+)><>Value", name: "kafka_$1_$2_$3", type: GAUGE}
  - {pattern: "kafka.(\\w+)<type=(.+), name=(.+)><>Count", name: "kafka_$1_$2_$3_count", type: UNTYPED}
R
}

# Java dies with this script, however that ends.
java_here=(setpriv --pdeathsig TERM java)

prepare() {
  [ -d "$libs" ] || fetch
  [ -z "${METRICS_PORT:-}" ] || fetch_exporter
  command -v java >/dev/null || die "Kafka needs a JDK, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
}

# Without the two characters that its alphabet has beside letters and digits: one that begins with a dash is an option to the tool.
cluster_id() { head -c 16 /dev/urandom | base64 | tr '+/' 'pq' | tr -d =; }

# filled CLUSTER_ID ID DIR PORT CONTROLLER_PORT VOTERS REPLICAS [KEY=VALUE]: fills the folder of a node. Sets `dir` and `class`.
filled() {
  local id=$1
  dir=$(mkdir -p "$3" && cd "$3" && pwd)
  properties "$2" "$4" "$5" "$6" "$7" "${@:8}" > "$dir/server.properties"
  logging > "$dir/log4j2.yaml"
  class=(-cp "$libs/*" "-Dlog4j2.configurationFile=$dir/log4j2.yaml")
  if [ ! -f "$dir/data/meta.properties" ]; then
    "${java_here[@]}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "${class[@]}" kafka.tools.StorageTool format \
      -t "$id" -c "$dir/server.properties" > "$dir/format.log" 2>&1 \
      || die "the storage could not be formatted: $(tail -n 3 "$dir/format.log")"
  fi
}

# node, with the same arguments: starts one and sets `pid`.
node() {
  local dir class agent=()
  filled "$@"
  : > "$dir/server.log"
  if [ -n "${METRICS_PORT:-}" ] && [ "$2" = 1 ]; then
    exporter_rules > "$dir/exporter.yaml"
    agent=("-javaagent:$exporter=127.0.0.1:$METRICS_PORT:$dir/exporter.yaml")
  fi
  "${java_here[@]}" "${agent[@]}" "-Xms${KAFKA_HEAP:-1G}" "-Xmx${KAFKA_HEAP:-1G}" -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true \
    "${class[@]}" kafka.Kafka "$dir/server.properties" > "$dir/server.log" 2>&1 &
  pid=$!
}

# serves PID DIR: waits until it does.
serves() {
  until grep -q 'Kafka Server started' "$2/server.log"; do
    kill -0 "$1" 2>/dev/null || die "Kafka has ended: $(tail -n 5 "$2/server.log")"
    sleep 0.02
  done
}

# A signal ends the first wait early; Kafka is still closing its logs then.
until_ended() {
  wait "$@" || true
  wait "$@" 2>/dev/null || true
}

format() {
  local dir class
  [ -n "${PORT:-}" ] && [ -n "${CONTROLLER_PORT:-}" ] || die "format needs PORT and CONTROLLER_PORT"
  prepare
  filled "$(cluster_id)" 1 "$1" "$PORT" "$CONTROLLER_PORT" "1@127.0.0.1:$CONTROLLER_PORT" 1 "${@:2}"
}

run() {
  local port=${PORT:-} controller_port=${CONTROLLER_PORT:-} pid
  prepare
  local free
  read -r -a free < <(free_ports 2)
  port=${port:-${free[0]}} controller_port=${controller_port:-${free[1]}}
  node "$(cluster_id)" 1 "$1" "$port" "$controller_port" "1@127.0.0.1:$controller_port" 1 "${@:2}"
  # shellcheck disable=SC2064  # the pid as it is now
  trap "kill $pid 2>/dev/null || true" TERM INT
  serves "$pid" "$1"
  echo "ready kafka=127.0.0.1:$port pid=$pid"
  until_ended "$pid"
}

cluster() {
  local ports voters="" id pid pids=() number
  prepare
  read -r -a ports < <(free_ports 6)
  for number in 1 2 3; do voters+="${voters:+,}$number@127.0.0.1:${ports[number + 2]}"; done
  id=$(cluster_id)
  for number in 1 2 3; do
    node "$id" "$number" "$1/$number" "${ports[number - 1]}" "${ports[number + 2]}" "$voters" 3 "${@:2}"
    pids+=("$pid")
  done
  # shellcheck disable=SC2064  # the pids as they are now
  trap "kill ${pids[*]} 2>/dev/null || true" TERM INT
  for number in 1 2 3; do serves "${pids[number - 1]}" "$1/$number"; done
  echo "ready kafka=127.0.0.1:${ports[0]} pids=$(IFS=,; echo "${pids[*]}")"
  until_ended "${pids[@]}"
}

case "${1:-}" in
  fetch) (fetch); fetch_exporter ;;
  format | run | cluster) [ $# -ge 2 ] || die "$1 wants a folder"; "$1" "${@:2}" ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
