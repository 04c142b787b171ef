#!/usr/bin/env bash
# Brings the upstream sources of a Debian package into EXAMPLE/fetched/source. Where they lie is asked of apt, which has the mirror of
# this machine; what they are is checked by SHA-256. Nothing is installed. Called by the fetch.sh of an example.
#   examples/debian-source.sh EXAMPLE_FOLDER BINARY_PACKAGE ARCHIVE SHA256 [PACKAGE_FOR_PROGRAM=PROGRAM ...]
# The last ones are the packages that the build and the load need, each with a program or file by which it is known.
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: examples/debian-source.sh FOLDER PACKAGE ARCHIVE SHA256 [PACKAGE=PROGRAM ...]" >&2; exit 2; }
folder=$1 package=$2 archive=$3 sum=$4
shift 4
die() { printf 'fetch: %s\n' "$*" >&2; exit 1; }
helper=/usr/lib/apt/apt-helper
mkdir -p "$folder/fetched"
cd "$folder/fetched"

# The folders of the pool in which apt has versions of the package; sources lie beside them.
pools() {
  local version versions
  versions=$(apt-cache madison "$package" | awk -F' *[|] *' '{ print $2 }' | sort -u)
  for version in $versions; do
    apt-get download --print-uris "$package=$version" 2>/dev/null | sed -n "s/^'\(.*\)\/[^/]*'.*/\1/p"
  done | sort -u
}

is_whole() { [ -f "$archive" ] && echo "$sum  $archive" | sha256sum --check --status; }

fetch() {
  local pool
  [ -x "$helper" ] || die "this is no Debian or Ubuntu (no $helper). Put $archive (SHA-256 $sum) into $PWD by hand and run it again."
  for pool in $(pools); do
    # apt's own client: its mirrors, proxies and certificates. It keeps nothing that has another hash.
    "$helper" download-file "$pool/$archive" "$archive" "SHA256:$sum" >&2 && is_whole && return 0
    rm -f "$archive"
  done
  die "apt knows no source of $package with $archive of SHA-256 $sum; it has $(apt-cache madison "$package" | awk -F' *[|] *' '{ print $2 }' | paste -sd' '). Run 'apt-get update'; on another release of Debian take its version and hash into $folder/fetch.sh, and expect other figures."
}

is_whole || fetch
if [ ! -d source ] || [ "$(cat made-from 2>/dev/null)" != "$sum" ]; then
  rm -rf source source.part
  mkdir source.part
  tar -xf "$archive" -C source.part --strip-components=1
  mv source.part source
  echo "$sum" >made-from
fi

missing=()
for need in "$@"; do
  known=${need#*=}
  case "$known" in
    /*) [ -e "$known" ] || missing+=("${need%%=*}") ;;
    *.pc) pkg-config --exists "${known%.pc}" 2>/dev/null || missing+=("${need%%=*}") ;;
    *) command -v "$known" >/dev/null || missing+=("${need%%=*}") ;;
  esac
done
echo "sources: $PWD/source"
[ ${#missing[@]} -eq 0 ] || die "these packages are missing: apt-get install --no-install-recommends ${missing[*]}"
