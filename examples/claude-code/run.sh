#!/bin/sh
set -eu
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
export CLAUDE_CONFIG_DIR="$home" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
export ANTHROPIC_BASE_URL="${HEADGATE_URL:-http://127.0.0.1:3000}" ANTHROPIC_AUTH_TOKEN="${HEADGATE_API_KEY:-any}"
claude -p hello --model sonnet-by-route --output-format text </dev/null
