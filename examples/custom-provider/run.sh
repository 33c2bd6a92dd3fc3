#!/bin/sh
set -eu
url=${HEADGATE_URL:-http://127.0.0.1:3000}

curl -sS "$url/v1/models" | grep -o '"id":"[^"]*"'
ask() {
  curl -sS -o /dev/null "$url/v1/$1" -H 'content-type: application/json' -d "$2" \
    -w "$1 -> %{http_code} %header{x-headgate-provider}/%header{x-headgate-model}\n"
}
messages='"messages":[{"role":"user","content":"hello"}]'
ask chat/completions "{\"model\":\"acme/acme-large\",$messages}"
ask responses '{"model":"acme-large","input":"hello"}'
ask messages "{\"model\":\"acme-large\",\"max_tokens\":100,$messages}"
