#!/usr/bin/env bash
# Do the queries of SQLite's benchmark give the answers that are right? Ends with 0, or says what was wrong.
#   examples/sqlite/check.sh SPEEDTEST1
set -euo pipefail
program=${1:?usage: check.sh SPEEDTEST1}

# answers TESTSET HASH: the hash is that of every row of every query, by a build of 3.40.1 without optimisation.
answers() {
  local said
  said=$("$program" --verify --size 3 --testset "$1" :memory: | sed -n 's/^Verification Hash: //p')
  [ "$said" = "$2" ] || { echo "check: the answers of $1 have the hash '$said', and '$2' is right" >&2; exit 1; }
}

answers main "455391 914c4333a81758e8279b716886560f7bcd033f27b54a6a2e"
answers cte "233 af8b3df88a5a4ec5dcc02dc507b4d888d758b4c4e8892532"
answers fp "10 d3e0eefde1053043576c8202b1cae4056138567579a8ca3b"
answers orm "1251186 089f23ef36e0662658ddb0f4a71d0a81ce4a3e9aea8a3ed5"
