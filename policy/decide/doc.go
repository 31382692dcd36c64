// Package decide is the control plane's part: it decides single posts.
//
//	rules.go      the policy file: conditions in CEL, compiled once; variables.go and typed.go say what they may ask
//	engine.go     [Engine] verifies the trigger evidence behind one post, evaluates the rules, and signs a decision and a grant
//	autonomy.go   the agent's reputation, opened when a condition asks for it
//	engines.go    [Engines] are the engine in force and those before it, which are honoured for some minutes
//	server.go     the internal API that sidecars ask; package policy has its client and its messages
//
// It is a package of its own so that what only verifies links neither CEL nor a logger.
package decide
