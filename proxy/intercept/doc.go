// Package intercept turns the connections of agents into requests. It gives each request with its [Route] to one handler, forwards nothing
// itself, and knows nothing of sessions, rules and evidence.
package intercept
