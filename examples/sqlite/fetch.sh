#!/usr/bin/env bash
# Sources of SQLite 3.40.1 with its own benchmark, speedtest1. They are joined into the one file that SQLite's authors recommend to compile.
#   examples/sqlite/fetch.sh && hone optimize examples/sqlite/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../debian-source.sh" "$here" libsqlite3-0 sqlite3_3.40.1.orig.tar.xz \
  aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655 tcl=tclsh
cd "$here/fetched"
if [ ! -f joined/sqlite3.c ]; then
  rm -rf make joined
  mkdir make joined
  (cd make && ../source/configure --disable-tcl >log 2>&1 && make sqlite3.c >>log 2>&1) ||
    { echo "fetch: sqlite3.c could not be made: $PWD/make/log has the reason" >&2; exit 1; }
  cp make/sqlite3.h source/test/speedtest1.c joined/
  cp make/sqlite3.c joined/sqlite3.c
fi
echo "joined: $PWD/joined"
