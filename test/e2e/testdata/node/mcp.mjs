// node mcp.mjs: a whole session with an MCP server through the MCP SDK's Streamable HTTP transport: POSTs, the GET event stream, by which the
// server tells something unasked, and the DELETE that ends the session. Prints what came.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const client = new Client({ name: "agent", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL("https://api.githubcopilot.com/mcp/"));
const told = new Promise((resolve) => client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => resolve(n.params.data)));
await client.connect(transport);
const { tools } = await client.listTools();
const answer = await client.callTool({ name: "issue_read", arguments: { text: "hello" } });
console.log(tools.map((t) => t.name).join(), answer.content[0].text, await told);
await transport.terminateSession();
await client.close();
