package autonomy

import "time"

// send sends a request that does not depend on earlier answers.
func (r *run) send(m *model, t *conversation, body []byte, said reply) {
	f := r.newExchange(m, body)
	f.answer = m.answers(r.random, t, len(body), said, false)
	if r.chance(m.fails) {
		f.answer = m.refusal(r.random)
	}
	r.exchange(f)
}

// sleep returns a script's nearly constant pause.
func (r *run) sleep() func() {
	fixed := pick(r.random, 100*time.Millisecond, 500*time.Millisecond, time.Second, 2*time.Second, 5*time.Second,
		30*time.Second, time.Minute)
	noise := pick(r.random, 0, 0, 0.1, 0.3)
	return func() { r.wait(r.about(fixed, noise) + r.about(4*time.Millisecond, 0.5)) }
}

// fixedConversation: the same few requests and histories, repeated.
func fixedConversation(r *run) {
	m, v, sleep := r.provider().under(r.random), newWriter(r.random, "support", false), r.sleep()
	workspace := newWorkspace(r.random, helping)
	t := newConversation(m, v.text(100), helping.names(), r.chance(0.5))
	type step struct {
		body []byte
		said reply
	}
	var script []step
	for range 3 + r.IntN(10) {
		t.ask(v.text(r.count(40, 0.5)))
		said := reply{text: v.text(r.count(60, 0.6))}
		if r.chance(0.5) {
			said.uses = []use{workspace.call()}
		}
		script = append(script, step{t.body(), said})
		if t.say(said); len(said.uses) > 0 {
			text, _ := workspace.run(said.uses[0])
			t.give(result{said.uses[0].id, text})
		}
	}
	for r.more() {
		for _, s := range script[:min(len(script), r.want-r.made)] {
			said := s.said
			if r.chance(0.5) { // a model does not say the same twice
				said.text = v.text(r.count(60, 0.6))
			}
			for i := range said.uses {
				said.uses[i].id = r.callID()
			}
			r.send(m, t, s.body, said)
			sleep()
		}
	}
}

// recordedAgent: an agent's requests sent again; the model answers differently.
func recordedAgent(r *run) {
	m, sleep := r.provider().under(r.random), r.sleep()
	workspace := newWorkspace(r.random, pick(r.random, coding, searching, operating))
	t := newConversation(m, workspace.text(200), workspace.names(), r.chance(0.5))
	paced := r.chance(0.5) // with the times of the recording
	t.ask(workspace.text(60))
	for r.more() {
		body := t.body()
		say := func() reply {
			return reply{text: workspace.text(r.count(25, 0.7)), uses: []use{workspace.call()}}
		}
		recorded := say()
		t.say(recorded)
		text, takes := workspace.run(recorded.uses[0])
		t.give(result{recorded.uses[0].id, text})
		t.summarize(func() string { return workspace.text(150) })
		r.send(m, t, body, say())
		if paced {
			r.wait(takes + r.about(60*time.Millisecond, 0.5))
		} else {
			sleep()
		}
	}
}

// oneRequest: a loop around one request.
func oneRequest(r *run) {
	m, v, sleep := r.provider().under(r.random), newWriter(r.random, "operations", false), r.sleep()
	t := newConversation(m, "", nil, r.chance(0.3))
	t.ask(v.text(r.count(50, 0.6)))
	body, words := t.body(), float64(r.count(50, 0.6))
	same := v.text(int(words))
	for r.more() {
		said := reply{text: same}
		if r.chance(0.6) {
			said.text = v.text(r.count(words, 0.3))
		}
		r.send(m, t, body, said)
		sleep()
	}
}

// listOfPrompts: prompts from a file, repeated.
func listOfPrompts(r *run) {
	m, v, sleep := r.provider().under(r.random), newWriter(r.random, "research", false), r.sleep()
	list := make([]string, 4+r.IntN(60))
	for i := range list {
		list[i] = v.text(r.count(35, 0.6))
	}
	for i := 0; r.more(); i++ {
		t := newConversation(m, "Answer briefly.", nil, false)
		t.ask(list[i%len(list)])
		r.send(m, t, t.body(), reply{text: v.text(r.count(90, 0.6))})
		sleep()
	}
}
