"""A rough MCP server, for tests: it answers late, twice, out of order and between garbage."""

import json
import random
import sys
import threading
import time

lock = threading.Lock()
held = []


def say(message):
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    with lock:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def text(id, words):
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": words}]}}


def noise(id):
    """What a client must not get to see."""
    say(random.choice([
        b"Server listening on stdio",
        b'{"jsonrpc":"2.0","id":',
        b"\xff\xfe\x00 not text",
        text(987654321, "nobody's"),
        text(id, "the second answer"),
        {"jsonrpc": "2.0", "id": 987654322, "error": {"code": -32000, "message": "nobody's"}},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "secret"}},
        {"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {"messages": []}},
    ]))


def release():
    while True:
        time.sleep(0.002)
        with lock:
            ready, held[:] = held[:], []
        random.shuffle(ready)
        for id, nonce in ready:
            say(text(id, nonce))
            if random.random() < 0.1:
                noise(id)


def long(id):
    with lock:
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"' % id)
        for _ in range(100):
            sys.stdout.buffer.write(b"x" * 1_000_000)
        sys.stdout.buffer.write(b'"}}\n')
        sys.stdout.buffer.flush()


threading.Thread(target=release, daemon=True).start()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    id, method, params = message["id"], message["method"], message.get("params", {})
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        info = {"name": "rough", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        say({"jsonrpc": "2.0", "id": id, "result": result})
    elif method == "ping":
        say({"jsonrpc": "2.0", "id": id, "result": {}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call" and params["name"] == "long":
        long(id)
    elif method == "tools/call" and params["name"] == "late":
        threading.Timer(0.5, say, [text(id, "late")]).start()
    elif method == "tools/call":
        with lock:
            held.append((id, params["arguments"]["nonce"]))
    else:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}})
