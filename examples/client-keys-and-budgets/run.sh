#!/bin/sh
set -eu
url=${HEADGATE_URL:-http://127.0.0.1:3000}

# Sends a prompt with a key, and prints the status and the code of an error.
ask() {
  printf '%s asks for %s: ' "$1" "$3"
  curl -sS "$url/v1/chat/completions" -H 'content-type: application/json' -H "authorization: Bearer $2" -w ' %{http_code}\n' \
    -d "{\"model\":\"$3\",\"max_tokens\":1000,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}" |
    sed -E 's/.*"code":"([a-z_]*)".* ([0-9]+)$/\2 \1/; s/.* ([0-9]+)$/\1/'
}

ask anyone none gpt-5-mini
ask alice alice-key-0123456789 gpt-5-mini
ask alice alice-key-0123456789 gpt-5
ask alice alice-key-0123456789 gpt-5-mini
for _ in 1 2 3 4; do ask bob bob-key-0123456789012 gpt-5; done
