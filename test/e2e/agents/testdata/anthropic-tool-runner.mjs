import Anthropic from "@anthropic-ai/sdk";
import { mcpTools } from "@anthropic-ai/sdk/helpers/beta/mcp";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const notes = new Client({ name: "agent", version: "1.0.0" });
await notes.connect(new StreamableHTTPClientTransport(new URL("https://notes.test/mcp")));
const { tools } = await notes.listTools();
const message = await new Anthropic().beta.messages.toolRunner({
  model: "claude-sonnet-4-5",
  max_tokens: 1000,
  messages: [{ role: "user", content: "Post a note, then delete one." }],
  tools: mcpTools(tools, notes),
});
console.log(message.content.map((block) => block.text).join(""));
await notes.close();
