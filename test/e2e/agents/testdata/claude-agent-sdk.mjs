import { query } from "@anthropic-ai/claude-agent-sdk";

process.env.ENABLE_TOOL_SEARCH = "false";
for await (const message of query({
  prompt: "Post a note, then delete one.",
  options: {
    mcpServers: { notes: { type: "http", url: "https://notes.test/mcp" } },
    allowedTools: ["mcp__notes__post_note", "mcp__notes__delete_note"],
  },
})) {
  if (message.type === "result") console.log(message.result);
}
