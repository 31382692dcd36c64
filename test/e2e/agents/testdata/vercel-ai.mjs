import { createMCPClient } from "@ai-sdk/mcp";
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const notes = await createMCPClient({ transport: { type: "http", url: "https://notes.test/mcp" } });
const { text } = await generateText({
  model: openai("gpt-5"),
  tools: await notes.tools(),
  stopWhen: stepCountIs(5),
  prompt: "Post a note, then delete one.",
});
console.log(text);
await notes.close();
