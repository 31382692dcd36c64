// node verify.mjs v1|v2|v2-modern URL [wait]: passes a verification honestly with the official SDK, its first or its second generation; v2-modern speaks
// revision 2026-07-28. It walks the way of the example agent, and prints the result of the registration.
// With wait it takes the time that the task demands; a node whose clock a test sets needs none. At the mediator's name it asks a model before each turn.
import { verify } from "../../../../examples/verify/verify.mjs";

const [generation, url, wait] = process.argv.slice(2);
const v1 = generation === "v1";
const { Client } = await import(v1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(v1 ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

const options = generation === "v2-modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
const client = new Client({ name: "agent", version: "1.0.0" }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const behind = new URL(url).hostname === "mediator.internal";
async function think() {
  const answer = await fetch("http://mediator.internal/v1/generate", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"prompt":"What next?"}' });
  if (!answer.ok) throw new Error(await answer.text());
  await answer.text();
}
const { task, registered } = await verify(client, { name: `agent ${generation}`, named: !behind, wait, think: behind ? think : undefined });
const { content } = await client.callTool({ name: "get_plugin_ui_manifest", arguments: { did: registered.did } });
const manifest = JSON.parse(content[0].text);
console.log(JSON.stringify({ tools: tools.map((t) => t.name), task, registered, manifest }));
await client.close();
