// node verify.mjs v1|v2|v2-modern URL [wait]: passes a verification honestly with the official SDK, its first or its second generation; v2-modern speaks
// revision 2026-07-28. It calls each tool for real, hands in what came, and prints the result of the registration. No model is involved.
// With wait it takes the time that the task demands; a node whose clock a test sets needs none.
import { createHash, generateKeyPairSync, sign } from "node:crypto";

const [generation, url, wait] = process.argv.slice(2);
const v1 = generation === "v1";
const { Client } = await import(v1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(v1 ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

const options = generation === "v2-modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
const client = new Client({ name: "agent", version: "1.0.0" }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

async function call(name, args) {
  const { content } = await client.callTool({ name, arguments: args });
  return content[0].text;
}
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const { tools } = await client.listTools();

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const pubkey = publicKey.export({ type: "spki", format: "pem" });
const challenge = JSON.parse(await call("get_registration_challenge", { pubkey }));
const { sessionId, task } = challenge.session;

const turns = [];
let canary = "";
async function turn(toolCall, args, more = "") {
  const output = await call(toolCall, { ...args, sessionId });
  const seen = JSON.parse(output);
  const answered = more && ` The follow-up was answered by ${toolCall}, whose result has ${seen.canary}.`;
  const reasoning = `The registry has ${seen.results?.length ?? "other"} plugins and the deployment ${seen.servers?.length ?? "other"} servers. ` +
    `To compare governance, workflow, execution and failure I go on from ${canary || "nothing"}.${answered}`;
  const prevHash = turns.at(-1)?.hash ?? "groover-challenge-seed-v1";
  const t = { toolCall, input: JSON.stringify(args), output, reasoning, timestamp: Date.now() };
  t.hash = sha256(JSON.stringify({ prevHash, ...t }));
  turns.push(t);
  canary = seen.canary;
  return JSON.parse(await call("submit_challenge_turn", { sessionId, ...t }));
}

let answer = {};
for (let i = 0; !answer.followUpPrompt; i++) {
  answer = i % 2 === 0 ? await turn("search_plugins", { query: `é < "${i}"\u2028` }) : await turn("list_mcp_servers", {});
  if (!answer.success) throw new Error(JSON.stringify(answer));
}
if (wait) await new Promise((resolve) => setTimeout(resolve, task.minDurationMs));
const query = answer.followUpPrompt.match(/with the query ([0-9a-f]+)/)?.[1];
answer = query ? await turn("search_plugins", { query }, "yes") : await turn("list_mcp_servers", {}, "yes");
if (!answer.followUpCompleted) throw new Error(JSON.stringify(answer));

let level = turns.map((t) => t.hash);
while (level.length > 1) {
  level = Array.from({ length: Math.ceil(level.length / 2) }, (_, i) => sha256(level[2 * i] + (level[2 * i + 1] ?? level[2 * i])));
}
const [merkleRoot] = level;
const registered = JSON.parse(await call("register_plugin", {
  pubkey, payload: "payload", challengeNonce: challenge.nonce,
  signature: sign(null, Buffer.from(`${challenge.nonce}|payload`), privateKey).toString("hex"),
  challengeTrace: { sessionId, turns, merkleRoot, attestation: sha256(merkleRoot + sessionId) },
  metadata: { name: `agent ${generation}` }, uiManifest: { view: "<none>" },
}));
const manifest = JSON.parse(await call("get_plugin_ui_manifest", { did: registered.did }));
console.log(JSON.stringify({ tools: tools.map((t) => t.name), task, registered, manifest }));
await client.close();
