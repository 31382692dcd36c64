// Package proxy is the sidecar's pipeline. It judges each call of an agent in one place and forwards it at most once.
//
// Package intercept accepts the agent's connection and terminates TLS. It passes each request and its Route to the
// [Handler], which passes it to the current [Pipeline].
//
//	handler.go       the current pipeline, which a reload replaces
//	connect.go       accepts or refuses a CONNECT; records refusals that came before a request
//	pipeline.go      takes a call from its first step to its answer; options.go lists the pipeline's parts
//	call.go          the call; stage.go how far it has come
//	load/            bounds the calls in flight, the rates and the records of refusals
//	own.go           answers agents' requests to the mediator itself, with package own
//	session/     1   the call's session
//	rules/       2   the call's rule
//	conversation.go  the protocol of the endpoint: mcp.go, graphql.go, model.go, generate.go, websocket.go, node.go
//	egress.go        a call without evidence, straight to step 10
//	post.go          a post takes these steps, in order:
//	content.go   3   the body, read once and hashed; package body holds it
//	challenge.go 4   fresh work for exactly this content
//	decision.go  5   the trigger's evidence; 6 the control plane's decision
//	attest.go    7   the sidecar's observations of the run, signed
//	authorize.go 8   the gate (package gate); 9 the request proof, and single-use keys are consumed
//	forward.go   10  sends the request, which package forward writes anew, and relays the answer
//	record.go        ends the call: its receipt, its record and its log line
package proxy
