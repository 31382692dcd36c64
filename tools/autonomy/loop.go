package autonomy

import "time"

// agent is a loop around a model: it asks, runs the tools that the model calls, and asks again.
type agent struct {
	*run
	model        *model
	conversation *conversation
	writer       *writer // of the model
	workspace    *workspace
	overhead     time.Duration // median of the agent's own work between two calls
	relayed      bool          // its tools are behind an MCP server
	parallel     float64       // probability of one more tool call
	words        float64       // median words beside tool calls
	final        float64       // median words of a task's last answer
	approve      func()        // waits for an approval of tools, if set
	tick         time.Duration // its client sends only at such times, if set
}

// newAgent makes a typical agent.
func newAgent(r *run, m model, s toolset) *agent {
	a := &agent{
		run: r, model: m.under(r.random), writer: newWriter(r.random, s.domain, false), workspace: newWorkspace(r.random, s),
		overhead: r.about(60*time.Millisecond, 0.7), relayed: r.chance(0.4), parallel: 0.17, words: 40,
		final: float64(r.count(160, 0.4)),
	}
	a.conversation = newConversation(a.model, a.writer.text(80+r.IntN(300)), s.names(), r.chance(0.75))
	a.conversation.most = 24 + r.IntN(30)
	return a
}

// task does a task in at most that many steps. The last one calls no tool.
func (a *agent) task(prompt string, steps int) {
	a.conversation.ask(prompt)
	for step := 1; a.more(); step++ {
		said := a.reply(step < steps)
		a.request(a.model, a.conversation, said)
		a.conversation.summarize(func() string { return a.writer.text(200) })
		if len(said.uses) == 0 {
			return
		}
		a.work(said.uses)
		a.pause()
	}
}

// pause is the agent's own time before its next call.
func (a *agent) pause() {
	a.wait(a.about(a.overhead, 0.5))
	if a.tick > 0 {
		a.until(a.now().Truncate(a.tick).Add(a.tick))
	}
}

// reply makes an answer, with or without tool calls.
func (a *agent) reply(calls bool) reply {
	r := reply{}
	if a.chance(a.model.reasons) {
		r.hidden = a.count(180, 0.9)
		if a.chance(0.3) {
			r.thought = a.writer.text(r.hidden / 3)
		}
	}
	if !calls {
		r.text = a.writer.text(a.count(a.final, 0.6))
		return r
	}
	if a.chance(0.6) {
		r.text = a.writer.text(a.count(a.words, 0.7))
	}
	r.uses = []use{a.workspace.call()}
	for a.chance(a.parallel) && len(r.uses) < 6 {
		r.uses = append(r.uses, a.workspace.call())
	}
	return r
}

// work runs tools in parallel and adds their results to the conversation.
func (a *agent) work(uses []use) {
	var all []result
	longest := time.Duration(0)
	if a.approve != nil {
		a.approve()
	}
	for _, u := range uses {
		text, takes := a.workspace.run(u)
		longest = max(longest, takes)
		if a.relayed {
			a.relay(a.workspace.server, u.tool, u.arguments, text)
		} else if a.chance(0.1) {
			a.other(200 + a.IntN(900))
		}
		all = append(all, result{u.id, text})
	}
	a.wait(longest)
	a.conversation.give(all...)
}
