// Package tools offers the verification over MCP: six tools, over Streamable HTTP, by the official Go SDK. Their names, arguments and results
// are the original's, so that its clients work: a client may call a tool at once, without initialize, and without an Accept header.
package tools
