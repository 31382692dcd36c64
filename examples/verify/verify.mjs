// Walks through one verification: calls each tool for real, hands in what came, and registers. No model is involved: what the reasoning says is
// a fixed sentence with the data of the results. docs/verification.md says what that means.
import { createHash, generateKeyPairSync, sign } from "node:crypto";

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

// verify walks through a verification over a connected MCP client, and returns the answer to the registration and the task. name is the plugin's.
// Where no sidecar says whose call it is, the calls have to name the verification: named is true. wait is false only for a test that sets
// the node's clock. think, if it is there, is called before each turn: an agent with a model asks it there.
export async function verify(client, { name, named = false, wait = true, think }) {
  async function call(tool, args) {
    const { content } = await client.callTool({ name: tool, arguments: args });
    return content[0].text;
  }
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const pubkey = publicKey.export({ type: "spki", format: "pem" });
  const challenge = JSON.parse(await call("get_registration_challenge", { pubkey }));
  if (!challenge.success) throw new Error(JSON.stringify(challenge));
  const { sessionId, task } = challenge.session;

  // turn calls a tool, and then tells of it: what was sent, what came, and why. The hash fixes all that.
  const turns = [];
  let canary = "";
  async function turn(toolCall, args, more = "") {
    await think?.();
    const output = await call(toolCall, named ? { ...args, sessionId } : args);
    const seen = JSON.parse(output);
    const answered = more && ` The follow-up was answered by ${toolCall}, whose result has ${seen.canary}.`;
    const reasoning = `The registry has ${seen.results?.length ?? "other"} plugins and the deployment ${seen.servers?.length ?? "other"} servers. ` +
      `To compare governance, workflow, execution and failure I go on from ${canary || "nothing"}.${answered}`;
    const prevHash = turns.at(-1)?.hash ?? "groover-challenge-seed-v1";
    const t = { toolCall, input: JSON.stringify(args), output, reasoning, timestamp: Date.now() };
    t.hash = sha256(JSON.stringify({ prevHash, ...t }));
    turns.push(t);
    canary = seen.canary;
    const answer = JSON.parse(await call("submit_challenge_turn", { sessionId, ...t }));
    if (!answer.success) throw new Error(JSON.stringify(answer));
    return answer;
  }

  let answer = {};
  for (let i = 0; !answer.followUpPrompt; i++) {
    answer = i % 2 === 0 ? await turn("search_plugins", { query: `é < "${i}"\u2028` }) : await turn("list_mcp_servers", {});
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
    metadata: { name }, uiManifest: { view: "<none>" },
  }));
  return { task, registered };
}
