// Command mediator is a sidecar mediator for AI agents. It intercepts every outbound call of an agent. For each call
// that posts it demands the whole chain of evidence, signs what it saw with keys that the agent cannot reach, and
// forwards the call once.
package main

import "github.com/actionproof/mediator/internal/program"

func main() { program.Main() }
