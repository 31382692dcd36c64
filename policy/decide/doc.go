// Package decide is the control plane: it decides single posts.
//
//	rules.go      compiles the policy file's conditions, written in CEL; variables.go and typed.go have their variables
//	engine.go     [Engine] verifies a post's trigger evidence, evaluates the rules, and signs a decision and a grant
//	autonomy.go   opens the agent's reputation when a condition asks for it
//	engines.go    [Engines] hold the current engine and, for some minutes, earlier ones
//	server.go     the internal API for sidecars; package policy has its client and messages
//
// It is separate from package policy so that a verifier links neither CEL nor a logger.
package decide
