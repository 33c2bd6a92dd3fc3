#!/bin/sh
set -eu
url=${HEADGATE_URL:-http://127.0.0.1:3000}

post() { curl -sS "$url$1" -H 'content-type: application/json' -d "$2"; }
messages='"messages":[{"role":"user","content":"hello"}]'

echo '-- chat completions'
post /v1/chat/completions "{\"model\":\"demo/echo\",$messages}" | grep -o '"content":"[^,]*'
echo '-- messages'
post /v1/messages "{\"model\":\"demo/echo\",\"max_tokens\":100,$messages}" | grep -o '"text":"[^,]*'
echo '-- a stream of messages'
post /v1/messages "{\"model\":\"demo/echo\",\"max_tokens\":100,\"stream\":true,$messages}" | grep '^event:' | uniq
