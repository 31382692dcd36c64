// Package upstream reaches the hosts that agents call. It knows nothing of agents, sessions and evidence.
//
// # The way of a request
//
//	target.go     where a request goes, in one normal form
//	transport.go  sends a request once and returns the answer, or an error with a code
//	tls.go        makes a connection with TLS and verifies the certificate
//	dialer.go     resolves the name, judges every address of the answer, and dials one of them
//	address.go    what an address is for, and whether it may be dialled
//	host.go       what the configuration says of one host: address, networks, roots
//	breaker.go    leaves a host alone that has failed several times in a row
package upstream
