// Package mcp judges messages of the Model Context Protocol over Streamable HTTP, revisions 2025-03-26 to 2026-07-28
// (https://modelcontextprotocol.io/specification). It sends nothing.
package mcp
