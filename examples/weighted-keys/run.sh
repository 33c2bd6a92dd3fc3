#!/bin/sh
set -eu
url=${HEADGATE_URL:-http://127.0.0.1:3000}

request() {
  curl -sS -o /dev/null "$url/v1/chat/completions" -H 'content-type: application/json' "$@" \
    -d '{"model":"shared","messages":[{"role":"user","content":"hello"}]}'
}

request -w 'without a key: %{http_code}\n'
for _ in $(seq 60); do
  request -H 'authorization: Bearer key-a' -w '%{http_code} %header{x-headgate-provider}\n'
done | sort -u
