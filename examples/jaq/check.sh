#!/usr/bin/env bash
# Do the filters give the answers that are right? Ends with 0, or says what was wrong.
#   examples/jaq/check.sh JAQ
set -euo pipefail
program=${1:?usage: check.sh JAQ}
filters=$(cd "$(dirname "$0")" && pwd)

# answers FILTER ANSWER, for 500 operations
answers() {
  local said
  said=$("$program" -c -n --argjson n 500 -f "$filters/$1") || { echo "check: $1 ended with $?" >&2; exit 1; }
  [ "$said" = "$2" ] || { echo "check: $1 says $said, and $2 is right" >&2; exit 1; }
}

answers mixed.jq '[249500,2500,23725,50,500,2500,1100,0]'
answers orders.jq '["c114",291,14793.75,301]'
answers texts.jq '[["error",56,512820,1177,897],["info",444,4102930,8914,6694]]'
