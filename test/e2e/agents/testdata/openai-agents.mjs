import { Agent, MCPServerStreamableHttp, run } from "@openai/agents";

const notes = new MCPServerStreamableHttp({ name: "notes", url: "https://notes.test/mcp" });
await notes.connect();
const agent = new Agent({ name: "worker", instructions: "Work.", mcpServers: [notes] });
const result = await run(agent, "Post a note, then delete one.");
console.log(result.finalOutput);
await notes.close();
process.exit(0);
