// An MCP client from npm that does what it is told: a line of JSON in, a line of JSON out.
//
// client.mjs PACKAGES URL TOKEN MODE: PACKAGES is a folder with node_modules. MODE is for
// `@modelcontextprotocol/client` (`auto`, `legacy`, `2026-07-28`); `1` is `@modelcontextprotocol/sdk`.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, url, token, mode] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${packages}/node_modules/@modelcontextprotocol/${path}`).href);
const before = mode === "1";
const { Client } = await load(before ? "sdk/dist/esm/client/index.js" : "client/dist/index.mjs");
const { StreamableHTTPClientTransport } = await load(
    before ? "sdk/dist/esm/client/streamableHttp.js" : "client/dist/index.mjs");

let client;

async function connect() {
    await client?.close().catch(() => {});
    const headers = { Authorization: `Bearer ${token}` };
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    const pinned = mode.startsWith("2") ? { pin: mode } : mode;
    const options = before ? {} : { versionNegotiation: { mode: pinned } };
    client = new Client({ name: "test", version: "1" }, options);
    // Streams that break are told of here; what was asked on them fails by itself.
    client.onerror = () => {};
    await client.connect(transport);
    return before ? transport.protocolVersion : client.getNegotiatedProtocolVersion();
}

async function call({ tool, arguments: given }) {
    const progress = [];
    const options = { timeout: 30_000, onprogress: (step) => progress.push(step.progress) };
    const params = { name: tool, arguments: given };
    const answer = await (before ? client.callTool(params, undefined, options) : client.callTool(params, options));
    return { text: answer.content[0]?.text ?? null, failed: Boolean(answer.isError), progress };
}

async function perform(command) {
    switch (command.do) {
        case "connect": return connect();
        case "tools": return (await client.listTools()).tools.map((tool) => tool.name);
        default: return call(command);
    }
}

for await (const line of createInterface({ input: process.stdin })) {
    try {
        console.log(JSON.stringify({ ok: await perform(JSON.parse(line)) ?? null }));
    } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
    }
}
process.exit(0);
