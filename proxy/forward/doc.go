// Package forward writes an agent's request anew for the upstream, and relays the answer.
//
//	header.go      headers with a meaning of their own, and headers refused for their two readings
//	request.go     the request, written anew
//	credential.go  the credential that the mediator injects
//	relay.go       the answer, as it comes
package forward
