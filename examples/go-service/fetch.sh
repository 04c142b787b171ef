#!/usr/bin/env bash
# Builds the program that loads flowd, once, so that no window waits for a compiler.
#   examples/go-service/fetch.sh && hone optimize examples/go-service/hone.toml
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p fetched
go build -o fetched/load ./cmd/load
echo "load: $PWD/fetched/load"
