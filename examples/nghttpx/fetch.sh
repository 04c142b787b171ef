#!/usr/bin/env bash
# Sources of nghttp2 1.52.0, whose nghttpx is a proxy in C++, and what build and load need.
#   examples/nghttpx/fetch.sh && hone optimize examples/nghttpx/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../debian-source.sh" "$here" nghttp2 nghttp2_1.52.0.orig.tar.gz \
  6b71561a9950b4a90fa36aa3160763f1437f3730d7a12434e416aa3f4ab145e0 \
  make=make autoconf=autoreconf automake=aclocal libtool=libtoolize pkg-config=pkg-config libev-dev=/usr/include/ev.h libc-ares-dev=libcares.pc libssl-dev=openssl.pc \
  zlib1g-dev=zlib.pc nghttp2-client=h2load curl=curl
