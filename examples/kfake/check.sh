#!/usr/bin/env bash
# Does a broker of the Kafka API give back what was produced, with keys, headers and compression? Ends with 0, or says what came.
#   examples/kfake/check.sh PORT
set -euo pipefail
broker=127.0.0.1:${1:?usage: check.sh PORT}
topic=check-$$-$RANDOM
die() { printf 'check: %s\n' "$*" >&2; exit 1; }

expected=$(for number in $(seq 200); do echo "key$number:value $number"; done)
for codec in none gzip snappy lz4 zstd; do
  printf '%s\n' "$expected" | kcat -b "$broker" -P -t "$topic-$codec" -p 0 -K: -H kind=check -z "$codec" -X message.timeout.ms=5000 \
    || die "nothing could be produced with $codec"
  got=$(timeout 20 kcat -b "$broker" -C -q -t "$topic-$codec" -p 0 -o beginning -e -K: -f '%k:%s\n') \
    || die "with $codec reading ended with $? (124: not within 20 s): ${got:0:200}"
  [ "$got" = "$expected" ] || die "with $codec came: ${got:0:200} ..."
done
