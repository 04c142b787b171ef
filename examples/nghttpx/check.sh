#!/usr/bin/env bash
# Does an nghttpx of this example hand requests on and answers back, over HTTP/1.1 and HTTP/2? Ends with 0, or says what came.
#   examples/nghttpx/check.sh PORT
set -euo pipefail
address=http://127.0.0.1:${1:?usage: check.sh PORT}
die() { printf 'check: %s\n' "$*" >&2; exit 1; }

for version in --http1.1 --http2-prior-knowledge; do
  head=$(curl -sS --max-time 10 "$version" -D - -o /dev/null "$address/a/path?x=1" -H "cookie: $(printf 'x%.0s' {1..3000})")
  [[ $head == *" 200"* ]] || die "$version: $head"
  # What the proxy adds on the way shows that both of its sides were passed.
  [[ $head == *[Vv]ia:*nghttpx* ]] || die "$version: the answer did not come through the proxy: $head"
  curl -sS --max-time 10 "$version" -o /dev/null --data-binary @"$0" "$address/upload" || die "$version: no answer to a body"
done
# A line that is no HTTP gets an answer, and the proxy lives.
code=$(curl -sS --max-time 10 --http1.1 -o /dev/null -w '%{http_code}' -X 'BAD METHOD' "$address/" || true)
[[ $code == [45]?? || $code == 000 ]] || die "a broken request was answered by $code"
many=$(h2load -n 2000 -c 4 -m 50 "$address/many" | grep '^status codes:')
[[ $many == *" 2000 2xx,"* ]] || die "$many"
