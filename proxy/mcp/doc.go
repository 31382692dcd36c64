// Package mcp reads messages of the Model Context Protocol on their way, in its Streamable HTTP transport of revisions
// 2025-03-26 to 2026-07-28 (https://modelcontextprotocol.io/specification). It sends and serves nothing.
//
//	json.go        what a text of JSON is refused for
//	message.go     what a client's message says, and whether its headers agree with it
//	rule.go        which messages a rule names, and the rule of a message
//	memory.go      what a session's servers have shown, and the calls whose answer broke off
//	question.go    what servers have asked, and whether a message is the answer
//	flight.go      requests on their way
//	call.go        a call on its way, with a reader beside its answer
//	answer.go      reads a server's answer as it passes, in JSON or in events
//	definition.go  the definitions of tools
//	problem.go     a refusal as a client of the protocol shows it
package mcp
