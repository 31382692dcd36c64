// Package forward makes the request that goes out of the one that an agent has sent, and brings the answer back.
//
//	header.go      which headers have a meaning of their own, and what is refused because it has two readings
//	request.go     the request, written anew
//	credential.go  the credential that the mediator puts in
//	relay.go       the answer, as it comes
package forward
