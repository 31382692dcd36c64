// openai-agents-learns.mjs API: an agent with three MCP servers, and with tools of its own for two APIs.
import { Agent, MCPServerStreamableHttp, run, tool } from "@openai/agents";

const site = `https://${process.argv[2]}/repos/acme/site`;
const calls = (name, urls, request) =>
  tool({
    name,
    description: name,
    strict: false,
    parameters: { type: "object", properties: {}, required: [], additionalProperties: true },
    execute: async () => {
      const answers = await Promise.all(urls.map((url) => fetch(url, request)));
      return (await Promise.all(answers.map(async (a) => `${a.status} ${await a.text()}`))).join("\n");
    },
  });
const tools = [
  calls("list_parts", [1234567, 7654321].map((id) => `https://items.test/items/${id}/parts`)),
  calls("read_site", [site]),
  calls("post_comment", [`${site}/issues/7/comments`], {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ body: "released" }),
  }),
];
const mcpServers = ["notes", "echo", "everything"].map(
  (name) => new MCPServerStreamableHttp({ name, url: `https://${name}.test/mcp` }),
);
for (const server of mcpServers) await server.connect();
const agent = new Agent({ name: "worker", instructions: "Work.", tools, mcpServers });
console.log((await run(agent, "Release it.")).finalOutput);
for (const server of mcpServers) await server.close();
process.exit(0);
