#!/usr/bin/env bash
# Merging the profiles of a thousand hosts out of a place, beside merge-fdata with the same files: time, CPU and the most memory of each, and
# whether the sums are the same. The merge out of the place also reads every lock, and holds every profile against its name.
#   bench/fleet.sh [PROFILES] [MEGABYTES]     MERGE_FDATA names another merge-fdata (of LLVM 20 or newer), HONE another hone
set -euo pipefail
cd "$(dirname "$0")/.."
profiles=${1:-1000} megabytes=${2:-1}
theirs=${MERGE_FDATA:-$(readlink -f "$(command -v merge-fdata-22)" || true)}
[ -x "$theirs" ] || { echo "fleet: there is no merge-fdata-22; install bolt-22, or name one by MERGE_FDATA" >&2; exit 2; }
cargo build --release --locked -p hone-binary --example fdata
made="${CARGO_TARGET_DIR:-target}/release/examples/fdata"
if [ -z "${HONE:-}" ]; then
  cargo build --release --locked -p hone
  HONE="${CARGO_TARGET_DIR:-target}/release/hone"
fi
hone=$(readlink -f "$HONE")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/files"
"$made" make "$folder/files" "$profiles" "$megabytes" in-order

# A row of the page's table: what it was, wall time, CPU and the most memory of a command and its children.
measured() {
  python3 - "$@" <<'PYTHON'
import resource, subprocess, sys, time
name, command = sys.argv[1], sys.argv[2:]
began = time.monotonic()
done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
took = time.monotonic() - began
if done.returncode:
    sys.exit(f"fleet: {name} failed: {done.stderr.decode(errors='replace')}")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"| {name} | {took:.1f} s | {used.ru_utime + used.ru_stime:.1f} s | {used.ru_maxrss / 1024:.0f} MiB |")
PYTHON
}

llvm=$("$theirs" --version | grep -o 'LLVM version [0-9]*' | grep -o '[0-9]*$')
with_commas=$(python3 -c 'import sys; print(f"{int(sys.argv[1]):,}")' "$profiles")
printf '| %s profiles of %d MB | wall | CPU | memory |\n|---|---|---|---|\n' "$with_commas" "$megabytes"
measured '`hone profile push`, all by one command' "$hone" profile push --quiet --store "$folder/place" --build-id c0ffee00c0ffee --host all "$folder"/files/*.fdata
measured '`hone profile merge --store`' "$hone" profile merge --quiet --store "$folder/place" --build-id c0ffee00c0ffee -o "$folder/ours"
measured "\`merge-fdata\` (LLVM $llvm) of the same files" "$theirs" -o "$folder/theirs" "$folder"/files/*.fdata
printf '\n%s, %d cores, %s\n' "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)" "$(nproc)" "$(date -u +%Y-%m-%d)"
if cmp -s <(LC_ALL=C sort "$folder/ours") <(LC_ALL=C sort "$folder/theirs"); then echo "sums: same"; else echo "sums: DIFFERENT"; exit 1; fi
