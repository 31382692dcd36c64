// Package verification is the verification challenge: an agent proves that it holds a key, calls tools over several turns, answers a
// follow-up question, and hands in the whole trace. It gets a signed result, and its plugin is registered.
//
// The package holds the rules, and [Service] runs them. The node's state is behind [Store], the servers of the xray bridge are behind
// [Gates], and package tools offers the service over MCP.
//
// Every check says how it is known. A check is observed if the node's own record supports it: the calls that it served, the order in
// which it received the turns, and its own clock. A check is declared if only the agent's trace supports it. [ModeObserved] demands that
// every check is observed. [ModeSeed] accepts declared checks, as the system does that the challenge comes from. What a turn gives as its
// reasoning is the agent's own word in both modes.
//
//   - turn.go, merkle.go: turns, traces and their hashes
//   - key.go: keys, proof of possession, DIDs
//   - task.go, followup.go: what the agent is asked to do
//   - session.go, observe.go: the state of one verification, and what the node saw of it
//   - coverage.go, validate.go: the score and the violations
//   - backoff.go, limits.go: how often an agent may try
//   - store.go, service.go, register.go: the service and its state
//   - result.go: the signed result
package verification
