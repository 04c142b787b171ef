#!/usr/bin/env bash
# Sources of Lua 5.4.4, an interpreter whose whole work is its own code.
#   examples/lua/fetch.sh && hone optimize examples/lua/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../debian-source.sh" "$here" liblua5.4-dev lua5.4_5.4.4.orig.tar.gz \
  164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61
