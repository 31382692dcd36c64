package autonomy

import "time"

// slowLocal: an agent with a slow local model.
func slowLocal(r *run) {
	a := newAgent(r, pick(r.random, localSlow, localCPU, localGPU), pick(r.random, coding, accounting))
	a.conversation.most = 14
	for r.more() {
		a.task(a.prompt(), r.count(6, 0.6))
		r.wait(r.about(20*time.Second, 1))
	}
}

// longTools: an agent whose tools take minutes or hours.
func longTools(r *run) {
	s := coding
	s.tools = []tool{
		{"build", 4 * time.Minute, 0.8, 120, ""}, {"run_simulation", 25 * time.Minute, 0.9, 150, ""},
		{"read_file", 60 * time.Millisecond, 0.8, 220, ""},
		{"submit_job", 2 * time.Minute, 1.2, 30, "text"},
	}
	a := newAgent(r, r.provider(), s)
	for r.more() {
		a.task(a.prompt(), r.count(12, 0.6))
	}
}

// tiny: an agent that needs only a few calls.
func tiny(r *run) {
	a := newAgent(r, r.provider(), pick(r.random, helping, operating))
	a.final = 60
	a.task(a.prompt(), r.want)
	for r.more() {
		a.task(a.prompt(), 1)
	}
}

// noTools: an agent that writes and rewrites.
func noTools(r *run) {
	m, v := r.provider().under(r.random), newWriter(r.random, "letters", false)
	t := newConversation(m, v.text(120), nil, r.chance(0.5))
	t.most = 20
	t.ask("Write the first part.")
	words := float64(r.count(250, 0.4))
	rest := r.about(2*time.Second, 1.2) // it keeps to a limit of calls a minute
	for r.more() {
		r.request(m, t, reply{text: v.text(r.count(words, 0.5))})
		t.ask(pick(r.random, "Judge what you have written, and name three weak points.", "Rewrite it.",
			"Write the next part."))
		t.summarize(func() string { return v.text(150) })
		r.wait(r.about(rest, 0.5))
	}
}

// limited: an agent whose client keeps to a rate and sends at regular times.
func limited(r *run) {
	a := newAgent(r, r.provider(), pick(r.random, searching, accounting))
	a.tick = pick(r.random, 5*time.Second, 10*time.Second, 20*time.Second)
	for r.more() {
		a.task(a.prompt(), r.count(10, 0.7))
		a.pause()
	}
}

// poller: an agent that polls one thing until it changes.
func poller(r *run) {
	a := newAgent(r, r.provider(), operating)
	interval, watched := r.between(10*time.Second, 2*time.Minute), a.workspace.name()
	for r.more() {
		a.conversation.ask("Watch " + watched + ".")
		for r.more() && !r.chance(0.08) {
			u := use{r.callID(), "describe", `{"path":` + quote(watched) + `}`}
			r.request(a.model, a.conversation, reply{uses: []use{u}})
			r.wait(interval + r.about(150*time.Millisecond, 0.6))
			a.conversation.give(result{u.id, watched + ": " + pick(r.random, "pending", "running", "running")})
			a.conversation.summarize(func() string { return a.writer.text(60) })
		}
		a.task(watched+": changed", r.count(4, 0.5))
	}
}

// supervisor: a person gives rare orders to an agent that works alone for long.
func supervisor(r *run) {
	a, p := newAgent(r, r.provider(), coding), newPerson(r, localGPU)
	for r.more() {
		words := r.count(12, 0.6)
		p.pause(words)
		a.task(p.prompts.text(words), r.count(40, 0.5))
		p.heard = 150
	}
}

// approver: a person clicks before each tool call of an agent.
func approver(r *run) {
	a := newAgent(r, r.provider(), operating)
	a.approve = func() {
		d := r.about(1600*time.Millisecond, 0.6)
		if r.chance(0.04) { // looks, or is away
			d += r.about(45*time.Second, 1)
		}
		r.wait(d)
	}
	for r.more() {
		a.task(a.prompt(), r.count(14, 0.6))
		r.wait(r.about(12*time.Second, 0.9))
	}
}

// dictator: a person gives short orders fast, each for a few steps of an agent.
func dictator(r *run) {
	a, p := newAgent(r, r.provider(), coding), newPerson(r, localGPU)
	for r.more() {
		r.wait(r.about(3500*time.Millisecond, 0.5))
		if r.chance(0.04) {
			p.pause(5)
		}
		a.task(p.prompts.text(r.count(5, 0.3)), r.count(3, 0.6))
	}
}

// answerer: an agent whose slow tool is a person who writes answers.
func answerer(r *run) {
	s := toolset{"research", "desk.internal:443",
		[]tool{{"ask_desk", time.Second, 0.5, 40, "text"}, {"note", 20 * time.Millisecond, 0.5, 4, "text"}}}
	a, p := newAgent(r, r.provider(), s), newPerson(r, localGPU)
	a.approve = func() {
		p.heard = 30
		p.pause(r.count(25, 0.6))
	}
	a.workspace.writer.person, a.workspace.writer.slip = true, p.prompts.slip
	for r.more() {
		a.task(a.prompt(), r.count(8, 0.6))
		r.wait(r.about(3*time.Second, 0.8))
	}
}
