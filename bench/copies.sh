#!/usr/bin/env bash
# The luck of a copied file: what byte-identical copies of one program differ by in user CPU, and what that follows.
#   bench/copies.sh [ROUNDS]                  a program with 1.4 MiB of hot code, built here (30 rounds, about 6 minutes)
#   bench/copies.sh ROUNDS PROGRAM [ARG ...]  another program that exits, such as `lua fib.lua`
# Each round runs every copy once, in random order. The conditions:
#   names    one file under four names: this is the noise
#   copies   eight copies
#   reread   the same copies, after the kernel dropped and read their pages again: a luck that changes here belongs to the
#            physical pages, and one that stays belongs to the file. Then once more without that (again)
#   mixed    four of them against four that are still in the pages of the write
#   huge     four copies on a tmpfs of 2 MiB pages (as root)
# Use a machine that has nothing else to do. Needs a C compiler and Python; as root it also prints where the pages lie.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-30}
shift || true
exec python3 bench/copies.py "$rounds" "$@"
