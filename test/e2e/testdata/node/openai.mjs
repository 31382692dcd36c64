// node openai.mjs chat|responses|plain|files: one call with the OpenAI SDK; prints what came, or the status, code and message of the
// error. When the first event of a stream is there it says so to the test's server, which sends the rest only then.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "the-agent-has-none", maxRetries: 0 });
const seen = () => fetch("https://api.github.com/seen");
const calls = {
  async chat() {
    let text = "";
    for await (const chunk of await client.chat.completions.create({ model: "m", stream: true, messages: [{ role: "user", content: "hello" }] })) {
      if (text === "") await seen();
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    return text;
  },
  async responses() {
    let text = "";
    for await (const event of await client.responses.create({ model: "m", stream: true, input: "hello" })) {
      if (event.type !== "response.output_text.delta") continue;
      if (text === "") await seen();
      text += event.delta;
    }
    return text;
  },
  async plain() {
    const answer = await client.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hello" }] });
    return answer.choices[0].message.content;
  },
  files: () => client.files.delete("file-1"), // no rule names it
};
try {
  console.log(await calls[process.argv[2]]());
} catch (error) {
  console.log(`${error.status} ${error.code} ${error.message}`);
}
