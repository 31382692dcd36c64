// Package proxy is the sidecar's proxy: it takes what an agent sends, has each call judged at one point, and forwards once what may go out.
//
// # The way of a call
//
// The connection layer, [Proxy], turns connections into requests, each with its [Route]. It forwards nothing.
//
//	listener.go     connections, bounded in number and time
//	strict.go       HTTP/1 in its one reading, before net/http reads it
//	server.go       plain requests, and CONNECT; goproxy.go hands the CONNECT's connection over
//	transparent.go  connections that the kernel led here
//	tunnel.go       what is inside both: TLS, terminated with a certificate of leaf.go that the CA of ca.go has signed
//
// Every request then passes the [Pipeline], the one choke point. Whatever becomes of it, it leaves one record.
//
//	pipeline.go     the way of a call, from its first step to its answer; call.go keeps its record, load.go and breaker.go bound the load
//	session.go      1   whose call it is
//	rules.go        2   which rule it matches, by pattern.go; target.go, path.go and header.go see that there is one reading
//	egress.go           a call that needs no evidence goes to step 10 from here
//	post.go             a post takes these, in order:
//	content.go      3   the body, read once and hashed
//	challenge.go    4   fresh work for exactly this content
//	decision.go     5   the trigger's evidence, and 6, the control plane's decision
//	attest.go       7   what the sidecar saw of the run, signed
//	authorize.go    8   the gate, and 9, the request proof; all that is good once is consumed
//	forward.go      10  the request, sent once, by transport.go and dialer.go, to an address that address.go allows
//	relay.go            the answer
package proxy
