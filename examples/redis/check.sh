#!/usr/bin/env bash
# Does a Redis answer as it should? Ends with 0, or says what it answered instead.
#   examples/redis/check.sh PORT
set -euo pipefail
port=${1:?usage: check.sh PORT}

ask() { redis-cli -p "$port" --no-raw "$@"; }
expect() {
  local expected=$1 answer
  shift
  answer=$(ask "$@" | paste -sd' ')
  [ "$answer" = "$expected" ] || { printf 'check: %s\n  answered %s\n  expected %s\n' "$*" "$answer" "$expected" >&2; exit 1; }
}

expect 'OK' flushall
expect 'OK' set text 'some bytes'
expect '"some bytes"' get text
expect '(integer) 10' strlen text
expect '(nil)' get nothing
expect '(integer) 1' incr counter
expect '(integer) 42' incrby counter 41
expect 'OK' mset a 1 b 2 c 3
expect '1) "1" 2) "2" 3) (nil)' mget a b nothing
expect '(integer) 4' rpush list d a c b
expect '(integer) 5' lpush list e
expect '1) "e" 2) "d" 3) "a"' lrange list 0 2
expect '1) "a" 2) "b" 3) "c" 4) "d" 5) "e"' sort list alpha
expect '"e"' lpop list
expect '"b"' rpop list
expect '(integer) 3' sadd set x y z
expect '(integer) 1' sismember set y
expect '(integer) 2' hset hash one 1 two 2
expect '"2"' hget hash two
expect '(integer) 3' zadd sorted 3 third 1 first 2 second
expect '1) "first" 2) "second"' zrangebyscore sorted -inf '(3'
expect '(integer) 2' zrank sorted third
expect '"4.5"' zincrby sorted 2.5 second
expect '(integer) 0' setbit bits 7 1
expect '(integer) 1' bitcount bits
expect '(integer) 1' expire text 100
expect '(integer) 5050' eval 'local s = 0; for i = 1, tonumber(ARGV[1]) do s = s + i end; return s' 0 100
expect '"1-1"' xadd stream 1-1 field value
expect '(integer) 1' pfadd sketch one two three
expect '(integer) 3' pfcount sketch
# Errors, too, are answers.
expect '(error) WRONGTYPE Operation against a key holding the wrong kind of value' lpush text x
expect '(error) ERR value is not an integer or out of range' incr text
# Many encodings of one list, and all of it back.
for size in 1 100 10000; do
  expect "(integer) $size" eval 'for i = 1, tonumber(ARGV[1]) do redis.call("rpush", KEYS[1], string.rep("x", i % 100) .. i) end return redis.call("llen", KEYS[1])' 1 "many$size" "$size"
done
expect 'OK' flushall
