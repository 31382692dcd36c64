// node slack.mjs message|delete: one call with Slack's SDK, which takes its proxy as an agent and not from the environment (Slack's own
// documentation says how); prints the message's time, or the status and the problem code.
import { WebClient } from "@slack/web-api";
import proxyAgent from "https-proxy-agent";

const client = new WebClient("the-agent-has-none", { agent: process.env.HTTPS_PROXY && new proxyAgent.HttpsProxyAgent(process.env.HTTPS_PROXY), retryConfig: { retries: 0 } });
const calls = {
  message: () => client.chat.postMessage({ channel: "C1", text: "released: v1.0 & more", blocks: [{ type: "divider" }] }),
  delete: () => client.chat.delete({ channel: "C1", ts: "1.1" }), // no rule names it
};
try {
  const answer = await calls[process.argv[2]]();
  console.log(`ok ${answer.ts}`);
} catch (error) {
  console.log(`${error.statusCode ?? error.data?.error} ${error.body?.code ?? error.message}`);
}
