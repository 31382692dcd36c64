// Package upstream reaches the hosts that agents call. It knows nothing of agents, sessions and evidence.
//
//	target.go     a request's destination in one normal form
//	transport.go  sends a request once and returns the answer, or an error with a code
//	tls.go        makes a TLS connection and verifies the certificate
//	client.go     authenticates calls by a client certificate
//	dialer.go     resolves the name, judges every address, and dials one of them
//	proxy.go      makes connections through the upstream proxy
//	via.go        which calls take that proxy
//	address.go    the purpose of an address, and whether it may be dialled
//	host.go       one host's configuration: address, networks, roots
//	breaker.go    suspends calls to a host that fails repeatedly
package upstream
