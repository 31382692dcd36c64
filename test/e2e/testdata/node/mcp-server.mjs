// node mcp-server.mjs CERT KEY: an MCP server on the MCP SDK, over HTTPS on a loopback port, which it prints. It tells its clients something on
// their GET event stream, as soon as they have called a tool and opened the stream, and prints each request's method.
import { randomUUID, webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

globalThis.crypto ??= webcrypto; // Node 18 hides it

const [cert, key] = process.argv.slice(2);
const sessions = new Map();

function newSession() {
  const server = new McpServer({ name: "echo", version: "1.0.0" }, { capabilities: { logging: {} } });
  let called;
  const toolCalled = new Promise((resolve) => { called = resolve; });
  server.registerTool("issue_read", { inputSchema: { text: z.string() } }, async ({ text }) => {
    called();
    return { content: [{ type: "text", text: `echo: ${text}` }] };
  });
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  transport.tell = async () => {
    await toolCalled;
    await server.sendLoggingMessage({ level: "info", data: "told" });
  };
  return server.connect(transport).then(() => transport);
}

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, async (req, res) => {
  console.log(`${req.method} ${req.headers.authorization ?? ""}`.trim());
  const transport = sessions.get(req.headers["mcp-session-id"]) ?? (await newSession());
  const handled = transport.handleRequest(req, res);
  if (req.method === "GET") transport.tell();
  await handled;
});
server.listen(0, "127.0.0.1", () => console.log(`listening ${server.address().port}`));
