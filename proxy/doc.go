// Package proxy is the pipeline of the sidecar: it judges each call of an agent at one point, and forwards once what
// may go out.
//
// # The way of a call
//
// Package [github.com/actionproof/mediator/proxy/intercept] takes the agent's connection and terminates TLS in it. It
// gives each request with its Route to the [Handler], which gives it to the current [Pipeline].
//
//	handler.go       the current pipeline; a reload puts another in its place
//	connect.go       decides a CONNECT, and records what was refused before there was a request
//	pipeline.go      the way of a call, from its first step to its answer; options.go what it works with
//	call.go          the call on its way; stage.go how far it has come
//	load.go          bounds the calls in flight and the rates
//	own.go           takes what an agent asks the mediator itself; package own answers what it asks about its session
//	session/     1   whose call it is
//	rules.go     2   which rule the call matches
//	conversation.go  the call in the protocol of its endpoint: mcp.go, graphql.go, model.go, generate.go, websocket.go
//	node.go          what goes to the node
//	egress.go        a call that needs no evidence goes to step 10 from here
//	post.go          a post takes these steps, in order:
//	content.go   3   the body, read once and hashed; package body holds it
//	challenge.go 4   fresh work for exactly this content
//	decision.go  5   the trigger's evidence, and 6, the control plane's decision
//	attest.go    7   what the sidecar saw of the run, signed
//	authorize.go 8   the gate (gate.go), and 9, the request proof; everything that is good once is consumed
//	forward.go   10  sends the request, which package forward writes anew, and relays the answer
//	record.go        ends the call: its interaction receipt, its record and its line in the log
package proxy
