#!/bin/sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
sed "s|http://127.0.0.1:3000|${HEADGATE_URL:-http://127.0.0.1:3000}|" "$here/config.toml" >"$home/config.toml"
cd "$home"
HEADGATE_API_KEY=${HEADGATE_API_KEY:-any} CODEX_HOME=$home codex exec --skip-git-repo-check hello 2>/dev/null </dev/null
