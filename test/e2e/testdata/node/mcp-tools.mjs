// node mcp-tools.mjs v1|v2|v2-modern URL CALL...: calls tools of an MCP server with the official SDK, its first or its second generation; v2-modern
// speaks revision 2026-07-28. Each CALL is list, or TOOL=ARGUMENTS in JSON. Prints a line for each: what came, or what the SDK shows of a refusal.
const [generation, url, ...calls] = process.argv.slice(2);
const v1 = generation === "v1";
const { Client } = await import(v1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(v1 ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

const options = { capabilities: { elicitation: {} } };
if (generation === "v2-modern") options.versionNegotiation = { mode: { pin: "2026-07-28" } };
const client = new Client({ name: "agent", version: "1.0.0" }, options);
const accept = async () => ({ action: "accept", content: { name: "a human" } });
if (v1) {
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  client.setRequestHandler(ElicitRequestSchema, accept);
} else {
  client.setRequestHandler("elicitation/create", accept);
}
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
for (const call of calls) {
  try {
    if (call === "list") {
      const { tools } = await client.listTools();
      console.log(tools.map((t) => t.name).sort().join(" "));
      continue;
    }
    const [name, args] = [call.slice(0, call.indexOf("=")), call.slice(call.indexOf("=") + 1)];
    const { content, isError, _meta } = await client.callTool({ name, arguments: JSON.parse(args) });
    const problem = _meta?.["github.com/actionproof/mediator/problem"];
    if (problem && isError) {
      const told = content[0].text.includes(problem.remedy) && content[0].text.includes(`(${problem.code})`);
      console.log(`${told ? problem.code : "nothing"} ${problem.post ? "with its record" : "without a record"}`);
      continue;
    }
    console.log(content.map((c) => c.text ?? c.type).join(" ").split("\n")[0]);
  } catch (error) {
    console.log(`${error.code} ${error.data?.code} ${error.data?.post ? "with its record" : "without a record"}`);
  }
}
await client.close();
