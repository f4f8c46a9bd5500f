#!/bin/sh
# Runs the official conformance suite through the bridge.
#
#   run.sh FOLDER
#
# FOLDER has node_modules with `node@22` and `@modelcontextprotocol/conformance@0.2.0-alpha.12`; the
# suite needs Node 22. The examples must be built: cargo build -p emergent-mcp-bridge --examples.
# A run fails if something fails that is not expected, and if something expected does not fail.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
examples=${CARGO_TARGET_DIR:-$here/../../../../target}/debug/examples
node=$folder/node_modules/node/bin/node
suite=$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js
results=$(mktemp -d)
port=7860
failed=0

# check VERSION EXPECTED HOST-ARGUMENTS...
check() {
    version=$1 expected=$2
    shift 2
    port=$((port + 1))
    "$examples/host" "$port" "$@" >"$results/host-$port.log" 2>&1 &
    host=$!
    sleep 2
    code=0
    "$node" "$suite" server --url "http://127.0.0.1:$port/mcp" --suite all --spec-version "$version" \
        --timeout 60000 --expected-failures "$here/$expected.yml" -o "$results/$port" >"$results/$port.log" 2>&1 ||
        code=$?
    kill "$host"
    echo "$expected: exit $code, $(grep '^Total' "$results/$port.log" || true)"
    if [ "$code" != 0 ]; then failed=1; fi
}

server=$examples/conformance_server
check 2025-11-25 expected-2025-11-25 --dedicated -- "$server" --legacy
check 2025-11-25 expected-2025-11-25 --dedicated -- "$server"
check 2025-11-25 expected-2025-11-25-shared -- "$server" --legacy
check 2025-11-25 expected-2025-11-25-shared-modern -- "$server"
check 2026-07-28 expected-2026-07-28 -- "$server"
check 2026-07-28 expected-2026-07-28 --dedicated -- "$server"
check 2026-07-28 expected-2026-07-28-legacy -- "$server" --legacy
echo "what was said is in $results"
exit "$failed"
