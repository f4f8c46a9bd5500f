# An MCP server in a page of shell, for tests: one line in, one line out.
set -eu
mode=${1:-}
echo "started with $#  arguments" >&2
case "$mode" in
    broken) echo "no such module: langfuse" >&2; exit 3 ;;
    quits) exit 0 ;;
    silent) exec sleep 1000 ;;
esac
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { answer "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
trap 'echo "told to end" >&2; exit 0' TERM
[ "$mode" != stubborn ] || trap '' TERM
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
    case "$line" in
        *'"method":"server/discover"'*) answer '"error":{"code":-32601,"message":"unknown method"}' ;;
        *'"method":"initialize"'*)
            answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
        *'"method":"ping"'*) [ "$mode" = deaf ] || answer '"result":{}' ;;
        *'"method":"tools/list"'*)
            [ "$mode" = deaf ] || answer '"result":{"tools":[{"name":"pid"},{"name":"crash"},{"name":"count"}]}' ;;
        *'"name":"pid"'*) text "$$" ;;
        *'"name":"env"'*) text "${SECRET:-}" ;;
        *'"name":"count"'*)
            n=$(cat count 2>/dev/null || echo 0); n=$((n + 1)); echo "$n" > count; text "$n" ;;
        *'"name":"children"'*) sleep 1000 & child=$!; setsid sleep 1000 & text "$child $!" ;;
        *'"name":"mutter"'*) echo "a secret of one client" >&2; text said ;;
        *'"name":"crash"'*) echo "about to crash" >&2; exit 7 ;;
        *'"name":"slow"'*) sleep 1; text late ;;
        *'"name":"hang"'*) ;;
        *'"id":'*) answer '"error":{"code":-32602,"message":"no such tool"}' ;;
    esac
done
