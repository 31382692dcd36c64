// Package autonomy makes synthetic sessions for judging an autonomy score: agents, and people and scripts that pass for
// agents. It was written without knowledge of the mediator's formulas. The README describes the groups and assumptions.
// The same seed gives the same sessions.
//
//	groups.go        the groups and their kinds
//	steady.go, bursts.go  agents; hard.go hard cases
//	human.go         people; replay.go scripts; paced.go both behind a proxy; fake.go endpoints of the owner
//	run.go           a session in the making; loop.go an agent's loop; challenge.go its challenges
//	sidecar.go       the mediator's own code by a virtual clock; exchange.go one call through it
//	conversation.go  requests and answers as JSON; answer.go their times; models.go speeds; tools.go tools
//	text.go          texts; words.go words; random.go chance
package autonomy
