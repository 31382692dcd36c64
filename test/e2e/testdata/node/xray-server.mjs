// node xray-server.mjs PORT HOW: the three servers of the xray bridge in one, on the official SDK, over HTTP on a loopback port, which it prints.
// HOW is what the tools answer, as JSON: {"orchestrate-task": {...}, ...}. "slow" never answers, "error" says that the tool has failed, "text"
// answers what is no JSON, {"text": "..."} answers that text, "redirect" and "garbage" answer nothing of MCP, "huge" answers 8 MB. Requests without the header
// that "header" names with its value are refused. Each call is printed with its arguments.
import { createServer } from "node:http";
import { webcrypto } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

globalThis.crypto ??= webcrypto; // Node 18 hides it

const [port, how] = process.argv.slice(2);
const answers = JSON.parse(how);

function newServer() {
  const server = new McpServer({ name: "xray", version: "1.0.0" });
  const schemas = {
    "orchestrate-task": { description: z.string(), tasks: z.array(z.object({ id: z.string(), description: z.string(), type: z.string() }).strict()) },
    govern_proposals: { proposals: z.array(z.object({
      id: z.string(), type: z.enum(["fix", "refactor", "guard", "automate", "codify", "strategic", "compliance"]), title: z.string(), description: z.string(),
      evidence: z.array(z.string()), source: z.literal("system"), confidence: z.number(),
    }).strict()).min(1) },
    "codex-enforcement": { operation: z.string(), files: z.array(z.string()), newCode: z.string() },
  };
  for (const [name, inputSchema] of Object.entries(schemas)) {
    server.registerTool(name, { inputSchema }, async (args) => {
      console.log(`${name} ${JSON.stringify(args)}`);
      const answer = answers[name];
      if (answer === "slow") await new Promise(() => {});
      if (answer === "error") return { isError: true, content: [{ type: "text", text: "failed" }] };
      if (answer === "huge") return { content: [{ type: "text", text: `{"decision":"approve","score":100,"x":"${"x".repeat(8 << 20)}"}` }] };
      if (answer?.structured) return { content: [], structuredContent: answer.structured };
      return { content: [{ type: "text", text: answer === "text" ? "fine" : answer?.text ?? JSON.stringify(answer) }] };
    });
  }
  return server;
}

const server = createServer(async (req, res) => {
  if (answers.header && req.headers[answers.header[0]] !== answers.header[1]) return res.writeHead(401).end();
  if (answers.http === "redirect") return res.writeHead(307, { location: "http://127.0.0.1:1/" }).end();
  if (answers.http === "garbage") return res.writeHead(200, { "content-type": "application/json" }).end("<html>");
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  res.on("close", () => transport.close());
  await newServer().connect(transport);
  await transport.handleRequest(req, res);
});
server.listen(Number(port), "127.0.0.1", () => console.log(`listening ${server.address().port}`));
