// node verify.mjs v1|v2|v2-modern URL [wait]: passes a verification honestly with the official SDK, its first or its second generation; v2-modern speaks
// revision 2026-07-28. It walks the way of the example agent, and prints the result of the registration.
// With wait it takes the time that the task demands; a node whose clock a test sets needs none.
import { verify } from "../../../../examples/verify/verify.mjs";

const [generation, url, wait] = process.argv.slice(2);
const v1 = generation === "v1";
const { Client } = await import(v1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(v1 ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

const options = generation === "v2-modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
const client = new Client({ name: "agent", version: "1.0.0" }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const { task, registered } = await verify(client, { name: `agent ${generation}`, named: new URL(url).hostname !== "mediator.internal", wait });
const { content } = await client.callTool({ name: "get_plugin_ui_manifest", arguments: { did: registered.did } });
const manifest = JSON.parse(content[0].text);
console.log(JSON.stringify({ tools: tools.map((t) => t.name), task, registered, manifest }));
await client.close();
