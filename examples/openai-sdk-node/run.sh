#!/bin/sh
set -eu
cd "$(dirname "$0")"
node client.mjs
