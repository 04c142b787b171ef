#!/usr/bin/env bash
# Fills a fresh data folder for one Apache Kafka node (KRaft): its server.properties, and a formatted log folder.
#   prepare.sh PORT CONTROLLER_PORT FOLDER
# JAVA is the launcher that formats (java).
set -euo pipefail
port=$1 controller=$2 folder=$3
libs=$(cd "$(dirname "$0")/../.." && pwd)/.hone/kafka/4.3.1
[ -d "$libs" ] || { echo "there is no Apache Kafka in $libs: run bench/kafka.sh fetch" >&2; exit 1; }
cat >"$folder/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$folder/data
num.network.threads=3
num.io.threads=8
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
P
cat >"$folder/log4j2.yaml" <<'L'
Configuration:
  status: WARN
  Appenders: {Console: {name: OUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: [{ref: OUT}]}}
L
# The tool only writes two small files, so it needs no compiler of its own.
"${JAVA:-java}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile="$folder/log4j2.yaml" -cp "$libs/*" \
  kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qk -c "$folder/server.properties" >"$folder/format.log"
