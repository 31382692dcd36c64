import { GoogleGenAI, mcpToTool } from "@google/genai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { OAuth2Client } from "google-auth-library";

const notes = new Client({ name: "agent", version: "1.0.0" });
await notes.connect(new StreamableHTTPClientTransport(new URL("https://notes.test/mcp")));
const authClient = new OAuth2Client();
authClient.setCredentials({ access_token: "any" });
const ai = new GoogleGenAI({
  vertexai: true,
  project: "p",
  location: "global",
  googleAuthOptions: { authClient },
});
const chat = ai.chats.create({ model: "gemini-2.5-flash", config: { tools: [mcpToTool(notes)] } });
console.log((await chat.sendMessage({ message: "Post a note, then delete one." })).text);
await notes.close();
