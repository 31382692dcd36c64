// node agent.mjs: is verified by the node, through the sidecar, and prints the result. README.md says how to run it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { EnvHttpProxyAgent, setGlobalDispatcher } from "undici";
import { verify } from "./verify.mjs";

setGlobalDispatcher(new EnvHttpProxyAgent()); // Node's own fetch follows the proxy variables from version 24 on, and then only if it is told to

const client = new Client({ name: "verify", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL("http://mediator.internal/mcp")));
const { registered } = await verify(client, { name: "example agent" });
console.log(JSON.stringify(registered, null, 2));
await client.close();
process.exitCode = registered.success ? 0 : 1;
