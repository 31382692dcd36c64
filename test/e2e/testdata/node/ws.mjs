// node ws.mjs echo|stay URL: opens a WebSocket with npm's ws, through the proxy. echo sends texts and bytes and reads them back, and prints
// how much; stay prints when it is closed.
import { createRequire } from "node:module";
import WebSocket from "ws";

const { HttpsProxyAgent } = createRequire(import.meta.url)("https-proxy-agent");
const [what, url] = process.argv.slice(2);
const socket = new WebSocket(url, ["echo"], { agent: process.env.HTTPS_PROXY && new HttpsProxyAgent(process.env.HTTPS_PROXY), perMessageDeflate: { threshold: 0 } });
const messages = ["hello", "x".repeat(200_000), Buffer.alloc(70_000, 7), "bye"];
let at = 0;
socket.on("unexpected-response", (_, res) => {
  res.on("data", (raw) => console.log(`${res.statusCode} ${JSON.parse(raw).code}`)).on("end", () => process.exit());
});
socket.on("error", (error) => console.log(`error ${error.message}`));
socket.on("open", () => {
  if (what === "echo") socket.send(messages[0]);
});
socket.on("message", (data, isBinary) => {
  const want = messages[at++];
  if (isBinary !== (typeof want !== "string") || !data.equals(Buffer.from(want))) console.log(`message ${at} differs`);
  if (at < messages.length) socket.send(messages[at]);
  else socket.close(1000);
});
socket.on("close", (code) => console.log(`${at} back, protocol ${socket.protocol}, ${socket.extensions}, closed ${code}`));
