import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";

const notes = new MultiServerMCPClient({ notes: { transport: "http", url: "https://notes.test/mcp" } });
const agent = createReactAgent({ llm: new ChatOpenAI({ model: "gpt-4.1" }), tools: await notes.getTools() });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Post a note, then delete one." }] });
console.log(messages.at(-1).content);
await notes.close();
