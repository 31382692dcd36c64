// Package proxy is the pipeline of the sidecar: it judges each call of an agent at one point, and forwards once what
// may go out.
//
// # The way of a call
//
// Package [github.com/actionproof/mediator/proxy/intercept] takes the agent's connection, terminates TLS in it, and
// gives each request with its Route to the [Handler], which gives it to the [Pipeline] in force. Whatever becomes of a
// request, it leaves one record. Callers without a session have a quota of records; the rest is counted.
//
//	handler.go      the pipeline in force; a reload puts another in its place
//	connect.go      decides a CONNECT, and records what was refused before there was a request
//	pipeline.go     the way of a call, from its first step to its answer
//	call.go         the call on its way, and its record
//	load.go         bounds the calls in flight and the rates
//	session/        1   whose call it is
//	generate.go         makes a prompt sent to the mediator the call to a model that goes on from here
//	internal.go         what an agent asks the mediator itself; ownpages.go what it asks about its own session
//	rules.go        2   which rule the call matches
//	message.go          the message of the call chooses among the rules of its endpoint; mcp.go, graphql.go and model.go read it
//	egress.go           a call that needs no evidence goes to step 10 from here
//	post.go             a post takes these steps, in order:
//	content.go      3   the body, read once and hashed; package body holds it
//	challenge.go    4   fresh work for exactly this content
//	decision.go     5   the trigger's evidence, and 6, the control plane's decision
//	attest.go       7   what the sidecar saw of the run, signed
//	authorize.go    8   the gate (gate.go), and 9, the request proof; everything that is good once is consumed
//	forward.go      10  sends the request, which package forward writes anew, and relays the answer
//	websocket.go        relays a WebSocket
//	interaction.go      opens and ends the interaction receipts of calls, which package receipts makes
//
// Package [github.com/actionproof/mediator/proxy/match] finds the rule by origin, method and path. Package
// [github.com/actionproof/mediator/proxy/mcp] reads messages to MCP servers, and their answers. Package
// [github.com/actionproof/mediator/proxy/forward] makes the request that goes out, with its credential. Package
// [github.com/actionproof/mediator/proxy/upstream] sends the request: to an address that may be dialled, and
// once. Package [github.com/actionproof/mediator/proxy/echo] finds the credential where an answer repeats it.
package proxy
