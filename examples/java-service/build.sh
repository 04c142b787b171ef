#!/usr/bin/env bash
# Compiles the service into service.jar. Needs a JDK 17 or newer; JAVA_HOME names another one than that of PATH.
set -euo pipefail
cd "$(dirname "$0")"
bin=${JAVA_HOME:+$JAVA_HOME/bin/}
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
"${bin}javac" --release 17 -d "$classes" Service.java
"${bin}jar" --create --file service.jar --main-class Service -C "$classes" .
