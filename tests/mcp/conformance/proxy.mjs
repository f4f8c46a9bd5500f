// The official suite sends no token: this passes on what it says, as it says it, with one.
//
// proxy.mjs TARGET TOKEN: says where it listens, and passes requests on to TARGET until its input ends.

import http from "node:http";

const target = new URL(process.argv[2]);
const authorization = `Bearer ${process.argv[3]}`;

const server = http.createServer((request, response) => {
    const onward = http.request(
        { host: target.hostname, port: target.port, path: target.pathname, method: request.method,
          headers: { ...request.headers, authorization } },
        (answer) => {
            response.writeHead(answer.statusCode, answer.headers);
            response.flushHeaders();
            answer.pipe(response);
            answer.on("error", () => response.destroy());
        });
    onward.on("error", () => response.destroy());
    // A client that goes away means something, and the server is to see it.
    response.on("close", () => onward.destroy());
    request.pipe(onward);
});
server.requestTimeout = 0;
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
process.stdin.resume().on("end", () => process.exit(0));
