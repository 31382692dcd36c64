// Package mcp judges messages of the Model Context Protocol over Streamable HTTP, revisions 2025-03-26 to 2026-07-28
// (https://modelcontextprotocol.io/specification). It sends nothing.
//
//	json.go        reads the JSON of messages
//	message.go     a client's message, and whether its headers agree with it
//	rule.go        which messages a rule allows, and the rule of a message
//	memory.go      what a session's servers have shown, and calls with a broken answer
//	question.go    the servers' questions, and whether a message answers one
//	flight.go      requests without a final result
//	call.go        a call in progress, with the reader of its answer
//	answer.go      reads a server's answer as it passes, as JSON or events
//	definition.go  definitions of tools
//	problem.go     writes a refusal in the form that clients show
package mcp
