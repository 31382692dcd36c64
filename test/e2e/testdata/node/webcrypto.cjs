// What the MCP server takes for granted, and Debian 12's Node 18 has only as a module.
globalThis.crypto ??= require("node:crypto").webcrypto;
