// Package verification is the verification challenge: an agent proves possession of a key, calls tools over several
// turns, answers a follow-up question and hands in the whole trace. The agent gets a signed result, and the node
// registers it under the name of its plugin, which the agent chooses.
//
// Each check says how it is known. It is observed if the node's own record supports it: the calls it served, the order
// and time in which turns came. It is declared if only the agent's trace supports it. [ModeObserved] demands observed
// checks; [ModeSeed] accepts declared ones, as the original system does. Reasoning is always the agent's own word.
//
//   - service.go, register.go: the service; store.go its state
//   - turn.go, merkle.go: turns, traces and their hashes
//   - key.go: keys, proof of possession, DIDs
//   - task.go, followup.go: tasks and follow-up questions
//   - session.go, observe.go: one verification and what the node saw of it
//   - coverage.go, validate.go: score and violations
//   - gates.go: the servers of the xray bridge
//   - backoff.go, limits.go: limits on tries
//   - result.go, modelcalls.go: the signed result
package verification
