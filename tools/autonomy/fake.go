package autonomy

import "time"

// FakeHosts are the owners' own endpoints in the group [Fake].
var FakeHosts = []string{"llm.owner-example.net:443", "api.openai.com.owner-example.net:443"}

// owned returns an owner's endpoint that pretends to be a provider's model.
func (r *run) owned() model {
	m := r.provider()
	m.host = pick(r.random, FakeHosts...)
	return m
}

// personEndpoint: an agent asks and a person answers. The endpoint streams while the person types, or afterwards, and
// declares reasoning tokens for the time.
func personEndpoint(r *run) {
	a := newAgent(r, r.owned(), pick(r.random, coding, searching, helping))
	a.writer = newWriter(r.random, a.workspace.toolset.domain, true)
	p := newPerson(r, *a.model)
	typed := r.chance(0.3)
	a.model.fails, a.model.firstSpread, a.model.speedSpread, a.model.jitter = 0, 0.1, 0.05, 0.3
	for r.more() {
		a.conversation.ask(a.prompt())
		for steps := r.count(3, 0.6); steps > 0 && r.more(); steps-- {
			said := a.reply(steps > 1)
			said.thought, said.hidden = "", 0
			said.text = p.prompts.text(r.count(14, 0.6))
			words := float64(said.size()) / 6
			takes := r.about(p.thinks, 0.8) + seconds(60*words/p.types)
			if typed {
				a.model.first, a.model.speed = r.about(p.thinks, 0.8), p.types*1.3/60
			} else {
				a.model.first, a.model.speed = takes, 60
				said.hidden = int(takes.Seconds() * 50)
			}
			f := r.newExchange(a.model, a.conversation.body())
			f.answer = a.model.typed(r.random, a.conversation, len(f.body), said)
			r.exchange(f)
			a.conversation.say(said)
			a.conversation.summarize(func() string { return a.writer.text(80) })
			if len(said.uses) > 0 {
				a.work(said.uses)
			}
			a.pause()
		}
	}
}

// typed is [model.answers] without time for reasoning.
func (m *model) typed(d random, t *conversation, request int, r reply) answer {
	shown := *m
	shown.prefill = 1e9
	first := shown.waits(d, 0, 0)
	u := shown.used(d, request, r)
	return shown.send(d, t, d.callID(), r, u, first, shown.speed, false)
}

// canned returns answers from a list.
func canned(a *agent, texts int) func(calls bool) reply {
	list := make([]string, texts)
	for i := range list {
		list[i] = a.writer.text(a.count(50, 0.8))
	}
	return func(calls bool) reply {
		said := reply{text: pick(a.random, list...)}
		if a.chance(0.3) {
			said.text += " " + a.writer.sentence()
		}
		if calls {
			said.uses = []use{a.workspace.call()}
		}
		return said
	}
}

// linearEndpoint: canned answers with times exactly linear in their tokens.
func linearEndpoint(r *run) {
	m := r.owned()
	m.fails, m.firstSpread, m.speedSpread, m.jitter, m.reasons, m.prefill, m.exact = 0, 0, 0, 0, 0, 1e9, true
	a := newAgent(r, m, pick(r.random, coding, searching))
	endpointLoop(a, canned(a, 12+r.IntN(30)))
}

// noisyEndpoint: the same with the noise of a real model.
func noisyEndpoint(r *run) {
	m := r.owned()
	m.reasons = 0
	a := newAgent(r, m, pick(r.random, coding, searching, accounting))
	endpointLoop(a, canned(a, 60+r.IntN(200)))
}

// endpointLoop is a regular agent whose model is its owner's.
func endpointLoop(a *agent, answers func(calls bool) reply) {
	a.workspace.follows = 0.98
	for a.more() {
		a.conversation.ask(a.prompt())
		for steps := a.count(15, 0.7); steps > 0 && a.more(); steps-- {
			said := answers(steps > 1)
			a.request(a.model, a.conversation, said)
			a.conversation.summarize(func() string { return a.writer.text(150) })
			if len(said.uses) > 0 {
				a.work(said.uses)
			}
			a.pause()
		}
		a.wait(a.about(4*time.Second, 0.8))
	}
}

// forgingEndpoint: a small model declared as a large one, with more tokens.
func forgingEndpoint(r *run) {
	m := r.owned()
	m.first, m.speed, m.speedSpread = 150*time.Millisecond, 180, 0.1
	a := newAgent(r, m, pick(r.random, coding, searching, operating))
	a.model.inflates = 2 + 2*r.Float64()
	for r.more() {
		a.task(a.prompt(), r.count(12, 0.8))
		r.wait(r.about(4*time.Second, 1))
	}
}
