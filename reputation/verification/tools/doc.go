// Package tools offers the verification over MCP (Streamable HTTP, official Go SDK). The names, arguments and results
// of the six tools are the same as on the seeds' server. A client may call a tool at once, without initialize and without an
// Accept header.
package tools
