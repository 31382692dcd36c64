package autonomy

import "time"

// pacedPerson: a proxy sends a person's prompts at regular times.
func pacedPerson(r *run) {
	p := newPerson(r, r.provider())
	ahead, tick := r.chance(0.5), pick(r.random, 20*time.Second, 30*time.Second, time.Minute, 2*time.Minute)
	pace := r.about(1500*time.Millisecond, 0.6)
	for r.more() {
		words := r.count(16, 0.7)
		if ahead {
			r.wait(r.about(pace, 0.25))
		} else {
			p.pause(words)
			r.until(r.now().Truncate(tick).Add(tick + r.about(3*time.Millisecond, 0.5)))
		}
		p.says(p.prompts.text(words), 190)
	}
}

// inventedCalls: a script invents tool calls and results in the history.
func inventedCalls(r *run) {
	m := r.provider().under(r.random)
	workspace := newWorkspace(r.random, pick(r.random, coding, searching, accounting))
	t := newConversation(m, workspace.text(150), workspace.names(), r.chance(0.6))
	t.most = 30
	t.ask(workspace.text(60))
	for r.more() {
		r.request(m, t, reply{text: workspace.text(r.count(60, 0.6))})
		invented := reply{text: workspace.text(15), uses: []use{workspace.call()}}
		t.say(invented)
		text, takes := workspace.run(invented.uses[0])
		t.give(result{invented.uses[0].id, text})
		t.summarize(func() string { return workspace.text(150) })
		r.wait(takes + r.about(60*time.Millisecond, 0.5)) // paced as an agent would be
	}
}

// echoedOutputs: a tool returns the model's own words as results.
func echoedOutputs(r *run) {
	m := r.provider().under(r.random)
	v := newWriter(r.random, "research", false)
	t := newConversation(m, "Call echo with what the last result has said.", []string{"echo"}, r.chance(0.6))
	t.most = 30
	value := v.name()
	pace := r.about(300*time.Millisecond, 0.6)
	t.ask(v.text(30) + " " + value)
	for r.more() {
		u := use{r.callID(), "echo", `{"text":` + quote(value) + `}`}
		said := reply{uses: []use{u}}
		if r.chance(0.4) {
			said.text = v.text(r.count(20, 0.6))
		}
		r.request(m, t, said)
		value = v.name()
		t.give(result{u.id, said.text + " " + value})
		t.summarize(func() string { return said.text })
		r.wait(r.about(pace, 0.3))
	}
}

// filler: a proxy makes agent-like calls while a person thinks.
func filler(r *run) {
	p := newPerson(r, r.provider())
	workspace := newWorkspace(r.random, searching)
	t := newConversation(p.model, workspace.text(100), workspace.names(), p.conversation.stream)
	p.conversation = t
	for r.more() {
		words := r.count(16, 0.7)
		for range r.count(4, 0.5) {
			if !r.more() {
				return
			}
			said := reply{text: p.replies.text(r.count(20, 0.5))}
			if r.chance(0.7) {
				said.uses = []use{workspace.call()}
			}
			t.ask("Go on.")
			if r.request(p.model, t, said); len(said.uses) > 0 {
				t.give(result{said.uses[0].id, "ok " + workspace.name()})
			}
			t.summarize(func() string { return workspace.text(100) })
			r.wait(r.about(4*time.Second, 0.4))
		}
		p.wait(seconds(60 * float64(words) / p.types * 0.3)) // the rest was written meanwhile
		p.says(p.prompts.text(words), 150)
	}
}
