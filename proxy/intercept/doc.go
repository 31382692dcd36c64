// Package intercept turns agents' connections into requests. It gives each request with its [Route] to one handler. It
// forwards nothing, and knows nothing of sessions, rules and evidence.
//
//	listener.go     accepts a bounded number of connections; waiting.go makes room
//	conn.go         one connection with all its state
//	http1.go        judges HTTP/1 before net/http reads it, line by line (http1line.go)
//	request.go      a request to the proxy: a CONNECT or an absolute URL
//	connect.go      from a CONNECT to the handler: goproxy, TLS, requests inside the tunnel
//	transparent.go  the same for connections that the kernel redirected here
//	leaf.go         the certificate for TLS, signed by the CA of ca.go
//	response.go     the answer, its deadlines, and panics
//	refused.go      the answer to a refused CONNECT
//	switched.go     a connection that has switched to another protocol
//
// One http.Server (server.go) serves connections to the proxy and the insides of tunnels.
package intercept
