// Package forward writes an agent's request anew for the upstream, and relays the answer.
//
//	header.go   headers that are treated one by one, and those that two servers could read differently
//	request.go  the request, written anew
//	relay.go    the answer, as it comes
package forward
