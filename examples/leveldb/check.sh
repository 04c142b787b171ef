#!/usr/bin/env bash
# Does a db_bench find what it has written, and nothing else, in several shapes of a database? Ends with 0, or says what it found.
#   examples/leveldb/check.sh DB_BENCH
set -euo pipefail
program=${1:?usage: check.sh DB_BENCH}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { printf 'check: %s\n' "$*" >&2; exit 1; }

# found EXPECTED BENCHMARK ARGUMENTS...: how many of how many keys a benchmark finds in the database that is there.
found() {
  local expected=$1 benchmark=$2 said
  shift 2
  said=$("$program" --db="$folder/db" --use_existing_db=1 --benchmarks="$benchmark" "$@" 2>"$folder/log" | grep "^$benchmark") \
    || die "$benchmark $*: db_bench failed, or did not say what it found: $(tail -n 3 "$folder/log")"
  [[ $said == *"($expected found)"* ]] || die "$benchmark $*: expected $expected found: $said"
}

for shape in "--compression_ratio=0.1 --value_size=1000" "--compression_ratio=1 --value_size=10" "--bloom_bits=10 --block_size=512" \
  "--write_buffer_size=65536 --max_file_size=65536 --open_files=20"; do
  rm -rf "$folder/db"
  # shellcheck disable=SC2086 # the shape is several words
  "$program" --db="$folder/db" --num=20000 --benchmarks=fillseq,overwrite,compact $shape >"$folder/log" 2>&1 \
    || die "filling with $shape: db_bench ended with $?: $(tail -n 3 "$folder/log")"
  # shellcheck disable=SC2086
  for num in 20000 10000; do
    found "$num of $num" readrandom --num="$num" $shape
    found "$num of $num" seekrandom --num="$num" $shape
  done
done
# What is deleted is gone.
"$program" --db="$folder/db" --use_existing_db=1 --num=20000 --benchmarks=deleteseq,compact >"$folder/log" 2>&1 \
  || die "deleting: db_bench ended with $?: $(tail -n 3 "$folder/log")"
found "0 of 20000" readrandom --num=20000
