#!/usr/bin/env bash
# Does an interpreter give the answers that are right? Ends with 0, or says what was wrong.
#   examples/lua/check.sh LUA
set -euo pipefail
program=${1:?usage: check.sh LUA}
scripts=$(cd "$(dirname "$0")" && pwd)

# answers SCRIPT OPERATIONS ANSWER
answers() {
  local said
  said=$("$program" "$scripts/$1" "$2") || { echo "check: $1 $2 ended with $?" >&2; exit 1; }
  [ "$said" = "$3" ] || { echo "check: $1 $2 says $said, and $3 is right" >&2; exit 1; }
}

answers features.lua 20 300628
answers json.lua 50 36319.50
answers numbers.lua 2000 -0.174077546
