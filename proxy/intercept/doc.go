// Package intercept turns the connections of agents into requests. It gives each request with its [Route] to one
// handler, forwards nothing itself, and knows nothing of sessions, rules and evidence.
//
// # The way of a connection
//
//	listener.go     accepts connections, at most so many at once
//	conn.go         one connection, and everything that is known of it
//	http1.go        judges HTTP/1 before net/http reads it, by the lines of http1line.go
//	request.go      a request to the proxy: a CONNECT, or an absolute URL
//	connect.go      the way from a CONNECT to the handler: goproxy, TLS, and the requests inside the tunnel
//	transparent.go  connections that the kernel led here take the same way, without a CONNECT
//	leaf.go         the certificate that TLS is terminated with, signed by the CA of ca.go
//	response.go     the answer: its deadlines, and what a panic leaves of it
//	switched.go     a connection that has switched to another protocol
//
// One http.Server (server.go) serves both the connections to the proxy and what is inside the tunnels.
package intercept
