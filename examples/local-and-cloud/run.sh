#!/bin/sh
set -eu
url=${HEADGATE_URL:-http://127.0.0.1:3000}

# Sends a prompt to a model or route, and prints who answered and after which attempts.
ask() {
  curl -sS -o /dev/null "$url/v1/chat/completions" -H 'content-type: application/json' \
    -d "{\"model\":\"$1\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}" \
    -w "$1 -> %header{x-headgate-provider}/%header{x-headgate-model} (%header{x-headgate-trail})\n" |
    sed 's/#[0-9a-f]*//g' # the keys, by their digests
}

for _ in 1 2 3 4 5 6; do ask llama; done
