#!/usr/bin/env bash
# Sources of Redis 7.0.15 as they are upstream (Debian's own patches leave them: with one of them the bundled jemalloc does not
# build), and what the load needs.
#   examples/redis/fetch.sh && hone optimize examples/redis/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../debian-source.sh" "$here" redis-server redis_7.0.15.orig.tar.gz \
  4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982 \
  make=make redis-tools=redis-benchmark
