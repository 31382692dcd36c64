package autonomy

import "time"

// person writes the next prompts.
type person struct {
	*run
	model        *model
	conversation *conversation
	prompts      *writer // in the person's style
	replies      *writer // in the model's style

	types  float64       // words a minute
	reads  float64       // words a minute
	skims  float64       // share of an answer that is read
	thinks time.Duration // median
	heard  int           // words of the last answer
	began  time.Time
}

// newPerson makes a person with a chat client.
func newPerson(r *run, m model) *person {
	domain := pick(r.random, "code", "research", "support", "finance", "letters")
	p := &person{
		run: r, model: m.under(r.random), prompts: newWriter(r.random, domain, true),
		replies: newWriter(r.random, domain, false),
		types:   50 * r.factor(0.35), reads: 238 * r.factor(0.15), skims: 0.15 + 0.7*r.Float64(),
		thinks: r.about(9*time.Second, 0.5), began: r.now(),
	}
	system := ""
	if r.chance(0.6) {
		system = p.replies.text(40)
	}
	p.conversation = newConversation(p.model, system, nil, r.chance(0.85))
	p.conversation.most = 60
	return p
}

// pause is the time to read the last answer, think, and write that many words.
func (p *person) pause(writes int) {
	minutes := float64(p.heard)*p.skims/p.reads + float64(writes)/p.types
	d := seconds(60*minutes*p.factor(0.2)) + p.about(p.thinks, 0.9)
	if p.chance(0.07) { // something else comes between
		d += p.about(86*time.Second, 1.6)
	}
	tired := min(p.now().Sub(p.began).Hours(), 8) * 0.04
	p.wait(min(time.Duration(float64(d)*(1+tired)), 16*time.Hour))
	switch hour := p.now().Hour(); {
	case hour == 12 && p.chance(0.25):
		p.wait(p.between(25*time.Minute, 70*time.Minute))
	case hour >= 18 && p.chance(0.1) || hour >= 23:
		p.wait(p.now().Truncate(24 * time.Hour).Add(32*time.Hour + p.about(40*time.Minute, 0.7)).Sub(p.now()))
		p.began = p.now()
	}
}

// says asks something and gets an answer of about that many words.
func (p *person) says(text string, answer float64) {
	p.conversation.ask(text)
	words := p.count(answer, 0.6)
	said := reply{text: p.replies.text(words)}
	if p.chance(p.model.reasons) {
		said.hidden = p.count(220, 0.9)
	}
	p.heard = words
	if p.chance(0.03) { // the person has seen enough
		f := p.newExchange(p.model, p.conversation.body())
		if f.answer = p.model.answers(p.random, p.conversation, len(f.body), said, false); len(f.answer.pieces) > 4 {
			f.answer.cut, f.answer.pieces = true, f.answer.pieces[:2+p.IntN(len(f.answer.pieces)-3)]
		}
		p.exchange(f)
		return
	}
	p.request(p.model, p.conversation, said)
	p.conversation.summarize(func() string { return p.replies.text(150) })
}

// typist: writes each prompt after reading the answer. Some clients search first.
func typist(r *run) {
	p := newPerson(r, r.provider())
	var client *agent
	if r.chance(0.3) {
		client = newAgent(r, *p.model, searching)
		client.final = 190
	}
	for r.more() {
		words := r.count(16, 0.7)
		p.pause(words)
		if r.chance(0.06) { // begins anew
			p.conversation.messages = nil
		}
		if client == nil {
			p.says(p.prompts.text(words), 190)
			continue
		}
		client.task(p.prompts.text(words), r.count(1.6, 0.5))
		p.heard = 190
	}
}

// copier: pastes prompts from another window.
func copier(r *run) {
	p := newPerson(r, r.provider())
	p.thinks = r.about(18*time.Second, 0.5)
	for r.more() {
		few := r.count(4, 0.6)
		p.pause(few)
		if r.chance(0.35) {
			p.conversation.messages = nil
		}
		p.says(p.replies.text(r.count(130, 0.8))+"\n\n"+p.prompts.text(few), 220)
	}
}

// continuer: only clicks a button.
func continuer(r *run) {
	p := newPerson(r, r.provider())
	p.says(p.prompts.text(40), 300)
	again := pick(r.random, "continue", "Continue", "go on", "next", "ok, next")
	for r.more() {
		d := r.about(7*time.Second, 0.55)
		if r.chance(0.05) {
			d += r.about(70*time.Second, 1.3)
		}
		r.wait(d)
		p.says(again, 260)
	}
}

// pair: the agent works some steps, then the person says how to go on.
func pair(r *run) {
	a, p := newAgent(r, r.provider(), coding), newPerson(r, localGPU)
	p.thinks = r.about(40*time.Second, 0.5)
	for r.more() {
		words := r.count(14, 0.7)
		p.pause(words)
		a.task(p.prompts.text(words), r.count(5, 0.8))
		p.heard = 120
	}
}
