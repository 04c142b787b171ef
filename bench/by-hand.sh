#!/usr/bin/env bash
# What Hone makes of a program, beside the same optimisation done by hand, by a judge that is not Hone's (bench/by-hand/judge.py):
#   redis    PGO, BOLT and both by their tools' own commands, with the training of examples/redis/hone.toml
#   broker   the embedded broker by cargo-pgo (`cargo install cargo-pgo`), with the training of examples/broker/hone.toml
# Both sides have the compiler, the sources and the training load in common. Ends with 3 when what Hone made costs more CPU than what was
# made by hand, beyond the interval.
#   bench/by-hand.sh [redis|broker] [ROUNDS]      $RUNS/by-hand (runs/by-hand) keeps builds and runs; what is there is not made again
# About 25 minutes (redis), and as many (broker), on two cores that have nothing else to do. Needs Python 3.11, clang with lld, llvm and BOLT,
# and redis-tools or cargo-pgo.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-redis} rounds=${2:-31} folder=${RUNS:-runs}/by-hand
mkdir -p "$folder/$what"
folder=$(cd "$folder/$what" && pwd)
die() { printf 'by-hand: %s\n' "$*" >&2; exit 1; }
say() { printf '== %s\n' "$*" >&2; }
cargo build --release --locked -p hone -p hone-broker
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
hone=$target/release/hone

# A value of an experiment file.
value() { python3 -c 'import sys, tomllib
value = tomllib.load(open(sys.argv[1], "rb"))
for key in sys.argv[2:]: value = value[key]
print(value if not isinstance(value, list) else " ".join(value))' "$@"; }

# The clang that Hone takes when none is named, and the real folder of its tools.
llvm() {
  local major folder
  for major in $(seq 30 -1 14); do
    command -v "clang-$major" >/dev/null || continue
    folder=$(dirname "$(readlink -f "$(command -v "clang-$major")")")
    [ -x "$folder/ld.lld" ] && [ -x "$folder/llvm-profdata" ] && [ -x "$folder/llvm-bolt" ] || continue
    echo "$folder"
    return
  done
  die "there is no clang; script/bootstrap --test installs one"
}

# What listens on a port already would be trained, and ended, in place of what was built.
is_free() {
  if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then die "something listens on 127.0.0.1:$1 already; end it, and start this again"; fi
}

# What Hone made: NAME=PATH for each variant of a run.
made_by_hone() { python3 -c 'import json, sys
for artifact in json.load(open(sys.argv[1]))["body"]["artifacts"]:
    if artifact["variant"] in sys.argv[2:]: print("hone-%s=%s" % (artifact["variant"], artifact["path"]))' "$@"; }

optimized() {
  [ -f "$folder/hone.json" ] && return
  local status=0
  say "hone optimize $*"
  "$hone" optimize "$@" --output "$folder/runs" --json --quiet >"$folder/hone.part" || status=$?
  # 3 is an answer: measured and worse.
  [ "$status" = 0 ] || [ "$status" = 3 ] || die "hone optimize ended with $status"
  mv "$folder/hone.part" "$folder/hone.json"
}

# --- redis

server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT

# Starts a Redis, trains it, and lets it write its profile. Every counting build has a port of its own, in case one lives on.
trained() {
  local program=$1 port=$2 load
  is_free "$port"
  "$program" --bind 127.0.0.1 --port "$port" --save "" --appendonly no --dir "$folder" >"$folder/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break; sleep 0.1; done
  kill -0 "$server" 2>/dev/null || die "$program did not start; see $folder/server.log"
  load=$(value examples/redis/hone.toml workload commands command)
  load=${load//\{port\}/$port}
  load=${load//\{operations\}/$(value examples/redis/hone.toml workload commands operations)}
  $load >/dev/null
  redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true
  wait "$server" || die "$program ended badly; see $folder/server.log"
  server=
}

# redis_build NAME CFLAGS LDFLAGS
redis_build() {
  [ -x "$folder/$1/src/redis-server" ] && return
  say "make $1"
  rm -rf "${folder:?}/$1"
  cp -a examples/redis/fetched/source "$folder/$1"
  make -C "$folder/$1/src" redis-server -j"$(nproc)" CC="$tools/clang" CFLAGS="$2" LDFLAGS="--ld-path=$tools/ld.lld $3" \
    AR="$tools/llvm-ar" RANLIB="$tools/llvm-ranlib" >"$folder/$1.log" 2>&1 || die "make failed; see $folder/$1.log"
}

bolted() {
  local input=$1 name=$2 port=$3
  [ -x "$folder/$name" ] && return
  say "llvm-bolt $name"
  "$tools/llvm-bolt" "$input" -instrument -o "$folder/$name.inst" --instrumentation-file="$folder/$name.fdata" >"$folder/$name.log" 2>&1 ||
    die "llvm-bolt failed; see $folder/$name.log"
  trained "$folder/$name.inst" "$port"
  "$tools/llvm-bolt" "$input" -o "$folder/$name" -data="$folder/$name.fdata" -reorder-blocks=ext-tsp -reorder-functions=cdsort \
    -split-functions -split-all-cold -split-eh -icf=all -use-gnu-stack >>"$folder/$name.log" 2>&1 ||
    die "llvm-bolt failed; see $folder/$name.log"
}

redis() {
  examples/redis/fetch.sh
  tools=$(llvm)
  redis_build base "" "-Wl,-q"
  redis_build counting "-fprofile-generate" "-fprofile-generate"
  if [ ! -f "$folder/redis.profdata" ]; then
    rm -rf "$folder/raw"
    mkdir "$folder/raw"
    LLVM_PROFILE_FILE=$folder/raw/redis-%p-%m.profraw trained "$folder/counting/src/redis-server" 7311
    "$tools/llvm-profdata" merge -o "$folder/redis.profdata" "$folder"/raw/*.profraw
  fi
  redis_build pgo "-fprofile-use=$folder/redis.profdata" "-Wl,-q"
  bolted "$folder/base/src/redis-server" bolt 7312
  bolted "$folder/pgo/src/redis-server" pgo-bolt 7313
  optimized examples/redis/hone.toml
  local base=$folder/base/src/redis-server pairs=() theirs
  cp -f "$base" "$folder/twin"
  mapfile -t theirs < <(made_by_hone "$folder/hone.json" baseline pgo bolt pgo+bolt)
  [[ " ${theirs[*]}" == *" hone-pgo="* ]] || die "the run of Hone has no variant pgo: ${theirs[*]}"
  pairs=(--pair base:hone-baseline)
  for name in pgo bolt pgo+bolt; do
    [[ " ${theirs[*]}" == *" hone-$name="* ]] && pairs+=(--pair "hand-$name:hone-$name")
  done
  python3 bench/by-hand/judge.py --rounds "$rounds" --start '--bind 127.0.0.1 --port {port} --dir {data} --save "" --appendonly no' \
    --load 'redis-benchmark -p {port} -n 500000 -r 50000 -d 100 -c 20 -P 16 -q -t set,get' "${pairs[@]}" \
    "base=$base" "twin=$folder/twin" "hand-pgo=$folder/pgo/src/redis-server" "hand-bolt=$folder/bolt" \
    "hand-pgo+bolt=$folder/pgo-bolt" "${theirs[@]}"
}

# --- the broker

# Options of a load as a workload of the experiment says it.
load_options() {
  local file=examples/broker/hone.toml name=$1
  printf '%s\n' --rate "$(value $file workload "$name" requests_per_s)" --payload "$(value $file workload "$name" payload)" \
    --records "$(value $file workload "$name" records_per_batch)" --bytes "$(value $file workload "$name" record_bytes)" \
    --compression "$(value $file workload "$name" compression)" --topic-config compression.type=zstd --topic-config \
    "hone.value.schema=$(value $file workload "$name" topic_config hone.value.schema | tr -d '\n')"
}

broker() {
  cargo pgo --version >/dev/null 2>&1 || die "there is no cargo-pgo: cargo install cargo-pgo"
  local triple options port=7321
  triple=$(rustc -vV | sed -n 's/^host: //p')
  export CARGO_TARGET_DIR=$folder/cargo-pgo
  local built=$CARGO_TARGET_DIR/$triple/release/hone-broker
  if [ ! -x "$folder/by-cargo-pgo" ]; then
    say "cargo pgo build"
    cargo pgo build -- --locked -p hone-broker --bin hone-broker >"$folder/cargo-pgo.log" 2>&1
    is_free "$port"
    "$built" --listen "127.0.0.1:$port" --metrics-listen off --data "$folder/data" >"$folder/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do grep -q '^ready ' "$folder/server.log" && break; sleep 0.1; done
    grep -q '^ready ' "$folder/server.log" || die "the counting broker did not start; see $folder/server.log"
    mapfile -t options < <(load_options telemetry)
    "$hone" load "127.0.0.1:$port" "${options[@]}" --seed 1001 --warmup 5000 --duration 10 --output "$folder/loads" >/dev/null
    kill -TERM "$server"
    wait "$server"
    server=
    say "cargo pgo optimize"
    cargo pgo optimize build -- --locked -p hone-broker --bin hone-broker >>"$folder/cargo-pgo.log" 2>&1
    cp "$built" "$folder/by-cargo-pgo"
  fi
  unset CARGO_TARGET_DIR
  optimized examples/broker/hone.toml --variants pgo
  local theirs base
  mapfile -t theirs < <(made_by_hone "$folder/hone.json" baseline pgo)
  base=$(printf '%s\n' "${theirs[@]}" | sed -n 's/^hone-baseline=//p')
  cp -f "$base" "$folder/twin"
  mapfile -t options < <(load_options validate)
  python3 bench/by-hand/judge.py --rounds "$rounds" --start '--listen 127.0.0.1:{port} --metrics-listen off --data {data}' \
    --load "$(printf '%q ' "$hone" load) 127.0.0.1:{port} $(printf '%q ' "${options[@]}") --warmup 500 --duration 2 --output {data}/loads" \
    --pair cargo-pgo:hone-pgo "${theirs[0]}" "twin=$folder/twin" "cargo-pgo=$folder/by-cargo-pgo" "${theirs[@]:1}"
}

case "$what" in
  redis) redis ;;
  broker) broker ;;
  *) echo "usage: bench/by-hand.sh [redis|broker] [ROUNDS]" >&2; exit 2 ;;
esac
