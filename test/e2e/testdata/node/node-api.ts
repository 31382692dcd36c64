// What a client sees of the node's API by the types that openapi-typescript makes of its description. It only has to compile.
import type { paths } from "./api";

type Sent<P extends keyof paths> = paths[P] extends { post: { requestBody: { content: { "application/json": infer Body } } } } ? Body : never;
type Got<P extends keyof paths, M extends "get" | "post"> =
  paths[P] extends { [m in M]: { responses: { 200: { content: { "application/json": infer Body } } } } } ? Body : never;

const id = { jsonrpc: "2.0", id: 1, method: "tools/call" } as const;
const sessionId = "s", key = "k";
export const calls: Sent<"/mcp">[] = [
  { ...id, params: { name: "get_registration_challenge", arguments: { pubkey: key } } },
  { ...id, params: { name: "search_plugins", arguments: { query: "governance", sessionId } } },
  { ...id, params: { name: "list_mcp_servers", arguments: { sessionId } } },
  { ...id, params: { name: "submit_challenge_turn", arguments: { sessionId, toolCall: "list_mcp_servers", hash: "h", timestamp: 1 } } },
  { ...id, params: { name: "register_plugin", arguments: { pubkey: key, payload: "p", signature: "s", challengeNonce: "n", challengeTrace: "{}" } } },
  { ...id, params: { name: "get_plugin_ui_manifest", arguments: { did: "did:groover:0" } } },
  // @ts-expect-error the key is missing
  { ...id, params: { name: "get_registration_challenge", arguments: {} } },
  // @ts-expect-error there is no such tool
  { ...id, params: { name: "register", arguments: {} } },
];
export const text = (answer: Got<"/mcp", "post">): string | undefined => answer.result?.content[0]?.text;

export const receipts: Sent<"/v1/receipts"> = { receipts: ["token"] };
export const commitment: Sent<"/v1/challenge/commit"> = { challenge_nonce: "n", commitment_hash: "h" };
export const nonce = (issued: Got<"/v1/challenge/issue", "post">): string => issued.challenge_nonce;
export const score = (scored: Got<"/v1/score/{receipt_hash}", "get">): string => scored.token;
export const reputation = (of: Got<"/v1/reputation/{agent_id}", "get">): string => of.token;
export const contract: Sent<"/v1/dispute"> = {
  challenger_id: "did:key:z", target_id: "o:a", target_receipts: ["h"], challenge_type: "timing", evidence: "e",
};
export const pinned = (pins: Got<"/.well-known/mediator-node", "get">): string => pins.registryThumbprint;
