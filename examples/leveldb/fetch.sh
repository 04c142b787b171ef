#!/usr/bin/env bash
# Sources of LevelDB 1.23, whose db_bench is a program that does its work and ends, and what the build needs.
#   examples/leveldb/fetch.sh && hone optimize examples/leveldb/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../debian-source.sh" "$here" libleveldb-dev leveldb_1.23.orig.tar.gz \
  9a37f8a6174f09bd622bc723b55881dc541cd50747cbd08831c2a82d620f6d76 \
  cmake=cmake libsnappy-dev=/usr/include/snappy.h libgmock-dev=/usr/include/gmock/gmock.h
