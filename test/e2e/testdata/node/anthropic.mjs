// node anthropic.mjs stream|plain|batch: one call with the Anthropic SDK; prints what came, or the status and the problem code. When the first
// event of a stream is there it says so to the test's server, which sends the rest only then.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ apiKey: "the-agent-has-none", maxRetries: 0 });
const ask = { model: "m", max_tokens: 64, messages: [{ role: "user", content: "hello" }] };
const calls = {
  async stream() {
    let text = "";
    for await (const event of client.messages.stream(ask)) {
      if (event.type !== "content_block_delta") continue;
      if (text === "") await fetch("https://api.github.com/seen");
      text += event.delta.text;
    }
    return text;
  },
  async plain() {
    return (await client.messages.create(ask)).content[0].text;
  },
  batch: () => client.messages.batches.create({ requests: [{ custom_id: "a", params: ask }] }), // no rule names it
};
try {
  console.log(await calls[process.argv[2]]());
} catch (error) {
  console.log(`${error.status} ${error.error?.code ?? error.message}`);
}
