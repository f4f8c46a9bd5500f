"""An MCP client from PyPI that does what it is told: a line of JSON in, a line of JSON out.

client.py URL TOKEN MODE: MODE is for `mcp` 2 and later (`auto`, `legacy`, `2026-07-28`); `1` is the `mcp` before.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

URL, TOKEN, MODE = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


async def connect(stack):
    from mcp.client import streamable_http

    if MODE == "1":
        from mcp import ClientSession

        streams = await stack.enter_async_context(streamable_http.streamablehttp_client(URL, headers=HEADERS))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        return session, (await session.initialize()).protocolVersion
    import httpx2
    from mcp.client.client import Client

    http = await stack.enter_async_context(httpx2.AsyncClient(headers=HEADERS, timeout=60))
    transport = streamable_http.streamable_http_client(URL, http_client=http)
    client = await stack.enter_async_context(Client(transport, mode=MODE))
    return client, client.protocol_version


async def do(client, command):
    if command["do"] == "tools":
        return [tool.name for tool in (await client.list_tools()).tools]
    steps = []

    async def progress(done, total, message):
        steps.append(done)

    answer = await client.call_tool(command["tool"], command["arguments"], progress_callback=progress)
    failed = answer.isError if MODE == "1" else answer.is_error
    return {"text": getattr(answer.content[0], "text", None), "failed": bool(failed), "progress": steps}


async def connection(commands, answers):
    """One connection, in a task of its own: whatever breaks in the client ends this and no more."""
    async with AsyncExitStack() as stack:
        client, version = await connect(stack)
        await answers.put({"ok": version})
        while True:
            command = await commands.get()
            try:
                await answers.put({"ok": await asyncio.wait_for(do(client, command), 30)})
            except Exception as error:
                await answers.put({"error": f"{type(error).__name__}: {error}"})


async def main():
    task, commands, answers = None, None, None
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if command["do"] == "connect":
            if task:
                task.cancel()
                await asyncio.wait([task], timeout=10)
            commands, answers = asyncio.Queue(), asyncio.Queue()
            task = asyncio.create_task(connection(commands, answers))
        else:
            await commands.put(command)
        answer = asyncio.create_task(answers.get())
        await asyncio.wait([answer, task], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            reason = "cancelled" if task.cancelled() else repr(task.exception())
            print(json.dumps({"error": f"the connection is over: {reason}"}), flush=True)
            continue
        print(json.dumps(answer.result()), flush=True)
    if task:
        task.cancel()


asyncio.run(main())
