package autonomy

import (
	"fmt"
	"time"
)

// provider returns one of the models of providers.
func (r *run) provider() model { return pick(r.random, providers...) }

// prompt returns a task.
func (a *agent) prompt() string { return a.writer.text(a.count(60, 0.7)) }

// codingAgent: long tasks of many steps, most of them with tools.
func codingAgent(r *run) {
	a := newAgent(r, r.provider(), coding)
	for r.more() {
		a.task(a.prompt(), r.count(18, 0.9))
		r.wait(r.about(4*time.Second, 1)) // its queue gives it the next task
	}
}

// researchAgent: searches and reads, and writes a long text at the end.
func researchAgent(r *run) {
	a := newAgent(r, r.provider(), searching)
	a.final, a.parallel = 500, 0.35
	for r.more() {
		a.task(a.prompt(), r.count(9, 0.6))
		r.wait(r.about(3*time.Second, 0.8))
	}
}

// batchClassifier: independent requests by parallel workers, with short answers.
func batchClassifier(r *run) {
	m, v := r.provider().under(r.random), newWriter(r.random, pick(r.random, "support", "finance", "research"), false)
	system, workers := v.text(150+r.IntN(200)), pick(r.random, 1, 1, 2, 4, 8)
	zip := r.chance(0.3)
	labels := []string{`{"label":"complaint","urgent":true}`, `{"label":"question","urgent":false}`,
		`{"label":"praise","urgent":false}`, `{"label":"other","urgent":false}`}
	for r.more() {
		var all []*exchange
		free := make([]time.Duration, workers)
		for range min(4*workers, r.want-r.made) {
			t := newConversation(m, system, nil, false)
			t.ask("Classify:\n" + v.text(r.count(70, 0.6)))
			f := r.newExchange(m, t.body())
			said := reply{text: pick(r.random, labels...)}
			if r.chance(0.3) {
				said.text = fmt.Sprintf(`{"label":%q,"reason":%q}`, v.name(), v.sentence())
			}
			f.answer = m.answers(r.random, t, len(f.body), said, zip)
			if r.chance(m.fails) {
				f.answer = m.refusal(r.random)
			}
			w := 0
			for i := range free {
				if free[i] < free[w] {
					w = i
				}
			}
			f.start = free[w] + r.about(15*time.Millisecond, 0.5)
			free[w] = f.start + f.lasts()
			all = append(all, f)
		}
		r.exchange(all...)
		r.wait(r.about(40*time.Millisecond, 0.8)) // reads the next rows
	}
}

// supportWorker: a queue of tickets, each with a few steps and a short answer.
func supportWorker(r *run) {
	a := newAgent(r, r.provider(), helping)
	a.final = 70
	for r.more() {
		a.conversation.messages = nil // a ticket is a conversation of its own
		a.task(newWriter(r.random, "support", true).text(r.count(45, 0.6)), r.count(3, 0.4))
		if r.chance(0.3) {
			r.wait(r.rare(25 * time.Second)) // the queue was empty
		}
	}
}

// planner: one model plans, another works on its parts, one after the other.
func planner(r *run) {
	plans, works := newAgent(r, r.provider(), accounting), newAgent(r, r.provider(), coding)
	plans.final, works.final = 220, 90
	for r.more() {
		plans.task(plans.prompt(), r.count(2, 0.4))
		for range 1 + r.IntN(3) {
			if works.conversation.messages = nil; r.more() {
				works.task(plans.writer.text(80), r.count(7, 0.6))
			}
		}
	}
}

// bookkeeper: reads, writes, and makes a post at the end of each task.
func bookkeeper(r *run) {
	a := newAgent(r, r.provider(), accounting)
	for r.more() {
		a.task(a.prompt(), r.count(5, 0.5))
		if r.err == nil {
			r.wait(r.about(a.overhead, 0.5))
			r.err = r.post(`{"text":`+quote(a.writer.text(50))+`}`, r.about(240*time.Millisecond, 0.5),
				pick(r.random, 200, 201, 201, 422))
		}
		r.wait(r.about(5*time.Second, 1))
	}
}
