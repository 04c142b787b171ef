#!/usr/bin/env bash
# Does `hone gate --evidence counted` tell the truth? A program of 20 functions gets 1 % more instructions in one of them:
#   1. the gate must fail and name the function;
#   2. a commit with other code for the same work must pass;
#   3. `hone gate --bisect` must find the commit among 16, one of which does not build.
#   bench/counts.sh [GATES] [SEARCHES]      20 gates of each kind, 5 searches: about 15 minutes, also on a busy machine
# Exit code 3 when something does not hold. Needs a C compiler, git and qemu-user (script/bootstrap --test).
set -euo pipefail
cd "$(dirname "$0")/.."
gates=${1:-20} searches=${2:-5}
hone=$(realpath "${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}")
[ -x "$hone" ] || cargo build --release --locked -p hone
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git init --quiet --initial-branch=main "$scratch/repo"
cd "$scratch/repo"
git config user.name bench
git config user.email bench@localhost
export XDG_CACHE_HOME=$scratch/cache

# The program, with more turns in one function (0: none), and a word that changes the code and not the work.
program() {
  local more=$1 word=$2 number turns
  echo '#include <stdio.h>'
  echo '#include <stdlib.h>'
  echo "static const char word[] = \"$word\"; static volatile unsigned long x = 88172645463325252ul;"
  for number in $(seq 20); do
    turns=200
    [ "$number" != "$more" ] || turns=240
    echo "__attribute__((noinline)) static void work_$number(void) {"
    echo "  unsigned long y = x; for (int i = 0; i < $turns; i++) { y ^= y << 13; y ^= y >> $number; y ^= y << 17; } x = y; }"
  done
  echo 'int main(int c, char **v) { for (unsigned long n = strtoul(v[1], 0, 10); n; n--) {'
  for number in $(seq 20); do echo "work_$number();"; done
  echo '} return printf("%lu %s\n", x, word) < 0; }'
}
commit() { git add --all; git commit --quiet --message "$1"; }
# The outcome and the first function with a change.
told() {
  python3 -c '
import json, sys
body = json.load(open(sys.argv[1]))["body"]
code = body["counted"][0]["code"] if body["counted"] else []
first = code[0]["frames"][0]["name"] if code else "-"
ratio = body["findings"][0]["ratio"][0] if body["findings"] else 1
print(body["outcome"], first, "%.5f" % ratio, body["head"]["subject"], len((body.get("bisection") or {}).get("tried", [])))
' "$1"
}
gate() {
  local status=0
  "$hone" gate --output "$scratch/runs" --json --quiet "$@" >"$scratch/record.json" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || { echo "the gate failed ($status)" >&2; exit 1; }
  told "$scratch/record.json"
}

cat >hone.toml <<'TOML'
name = "counts"
[target]
source = "."
build = ["cc -O2 -g main.c -o program"]
program = "program"
compiler = "gcc"
[workload.work]
run = ["{operations}"]
operations = 100000
[gate]
judge = ["work"]
TOML
program 0 base >main.c
commit base

found=0 passed=0 ended=0
for run in $(seq "$gates"); do
  planted=$(((run - 1) % 20 + 1))
  git checkout --quiet -B topic main
  program "$planted" "run $run" >main.c
  commit "more"
  read -r outcome function ratio _ <<<"$(gate --base main --evidence counted)"
  echo "1 % more in work_$planted: $outcome, $function, ratio $ratio"
  if [ "$outcome $function" = "worse work_$planted" ]; then found=$((found + 1)); fi
  git checkout --quiet -B topic main
  program 0 "run $run" >main.c
  commit "the same work"
  read -r outcome _ ratio _ <<<"$(gate --base main --evidence counted --even-if-same)"
  echo "the same work: $outcome, ratio $ratio"
  if [ "$outcome" = passed ]; then passed=$((passed + 1)); fi
done
for run in $(seq "$searches"); do
  git checkout --quiet -B topic main
  guilty=$(((run * 7) % 16 + 1)) broken=$(((run * 5) % 16 + 1))
  [ "$broken" != "$guilty" ] || broken=$((guilty % 16 + 1))
  [ "$broken" != 16 ] || broken=1
  [ "$broken" != "$guilty" ] || broken=2
  for number in $(seq 16); do
    program "$([ "$number" -lt "$guilty" ] && echo 0 || echo "$run")" "commit $number" >main.c
    [ "$number" != "$broken" ] || echo 'int broken(' >>main.c
    commit "$number"
  done
  read -r outcome function _ subject tried <<<"$(gate --bisect main..topic)"
  echo "commit $guilty of 16 (commit $broken does not build): found $subject, $function, $tried commits built"
  # Next to a commit that does not build, the first bad one can't be told from it.
  if [ "$subject" = "$guilty" ]; then ended=$((ended + 1)); fi
done
echo "1 % more: found with its function in $found of $gates. The same work: passed in $passed of $gates. Searches: $ended of $searches."
[ "$found" = "$gates" ] && [ "$passed" = "$gates" ] && [ "$ended" = "$searches" ] || exit 3
