// Package autonomy makes synthetic sessions to judge an autonomy score with: groups of agents, and groups of people and
// scripts that pass for agents. It was written without knowledge of the mediator's formulas. The README says what each
// group is, and what is assumed.
//
//	groups.go        the groups and their kinds; Make makes their sessions
//	steady.go        agents; bursts.go agents that events wake; hard.go cases in which a score is likely to err
//	human.go         people; replay.go scripts; paced.go people and scripts behind a proxy; fake.go endpoints of the owner
//	run.go           a session in the making; loop.go an agent's loop; challenge.go what it does with challenges
//	sidecar.go       the sidecar's own code, which measures a session by a virtual clock; exchange.go one call through it
//	conversation.go  requests, in the dialects of three APIs; answer.go answers; models.go how fast models answer; tools.go what tools return
//	text.go          texts of models and of people; words.go their words; random.go chance
//
// The command in judge scores the sessions. Everything is drawn from a seed: the same seed gives the same sessions.
package autonomy
