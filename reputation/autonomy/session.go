package autonomy

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/evidence/interaction"
)

// Bounds on the model hosts that an appraiser trusts.
const (
	MaxHosts = 32
	maxHost  = 127 // bytes; receipts cut longer hosts, which would make them ambiguous
)

// CheckHosts refuses an invalid list of trusted model hosts. Hosts include their ports, as in receipts.
func CheckHosts(hosts []string) error {
	if len(hosts) > MaxHosts {
		return fmt.Errorf("%d model hosts are listed; at most %d can be trusted", len(hosts), MaxHosts)
	}
	for _, host := range hosts {
		if host == "" || len(host) > maxHost {
			return fmt.Errorf("the model host %.40q is empty or longer than %d bytes", host, maxHost)
		}
	}
	return nil
}

// state says how a figure is known, strongest first. Estimates count as not measured: no agent may gain by them.
type state uint8

const (
	observed state = iota
	declared
	notMeasured
)

var stateNames = [...]string{interaction.StateObserved, interaction.StateDeclared, interaction.StateNotMeasured}

func (s state) String() string { return stateNames[s] }

// figure is a figure of a receipt, a whole number that a double holds exactly.
type figure struct {
	value float64
	state state
}

func figureOf(f interaction.Figure) figure {
	at := slices.Index(stateNames[:], f.State)
	if at < 0 {
		return figure{state: notMeasured}
	}
	return figure{float64(f.Value), state(at)}
}

func (f figure) measured() bool { return f.state != notMeasured }

type call struct {
	at, end    float64 // Unix milliseconds: request received, answer ended
	duration   figure
	tokens     figure
	gap        figure // from the end of the previous answered call to this request; see docs/autonomy.md
	read       figure // words of the answer before that gap
	references figure // to earlier answers; not measured after a call to an untrusted host
	depth      figure // as relayed; not measured after a call to an untrusted host
	sample     sample
	model      int // index in Session.models, or -1
	links      []link
}

// link is a tool result in a request, for a tool call that an earlier answer made.
type link struct {
	maker int  // the answered call that made it
	fresh bool // the tool call was no repetition
}

// sample describes a model's text so far. bytes is 0 if there is none.
type sample struct{ bytes, entropy, compression float64 }

type toolCall struct {
	maker int
	fresh bool
	tool  string
}

type use struct{ tool, arguments string }

// model is a model at a host, as the agent named it.
type model struct{ host, name string }

type touch struct{ call, domain int }

type domain struct {
	name string
	tool bool // named by the agent
}

// Session measures the receipts of one session, and keeps little of each. It is not safe for concurrent use.
type Session struct {
	believed []string // model hosts

	owner, agent, id, event, head string
	number                        int64
	closed                        bool
	totals                        interaction.SessionTotals

	calls      []call
	hosts      []string
	other      int64  // model calls without a trusted answer
	strayed    bool   // an untrusted model host was called
	follows    bool   // the last model call was answered
	lastWords  figure // words of its answer
	received   []float64
	models     []model
	links      int // of all calls
	made       map[string]toolCall
	used       map[use]bool
	domains    []domain
	touches    []touch
	answers    map[string]string // of probes
	challenges map[string]*seen  // by nonce
}

// NewSession starts a session. Only model hosts in the list are trusted; see [CheckHosts].
func NewSession(modelHosts []string) *Session {
	return &Session{
		believed: slices.Clone(modelHosts), made: make(map[string]toolCall), used: make(map[use]bool),
		answers:    make(map[string]string),
		challenges: make(map[string]*seen),
	}
}

// Add measures the next verified receipt of the chain, which has this hash. It keeps no reference to r.
func (s *Session) Add(hash string, r *interaction.Receipt) {
	s.owner, s.agent, s.id, s.event = r.Owner, r.Agent, r.Chain.SessionID, r.EventID
	s.head, s.number = hash, r.Chain.SequenceNumber
	s.closed, s.totals = r.Closing != nil, r.Session
	answered := false
	if m := r.Model; m != nil {
		believed := s.believes(m.Host)
		if answered = believed &&
			(r.Outcome == interaction.OutcomeCompleted || r.Outcome == interaction.OutcomeUnfinished); answered {
			s.addCall(r)
		} else {
			s.other++
		}
		if believed && !slices.Contains(s.hosts, m.Host) {
			s.hosts = append(s.hosts, m.Host)
		}
		s.strayed, s.follows = s.strayed || !believed, answered
		s.received = append(s.received, float64(r.Timing.RequestReceived))
	}
	for _, relayed := range r.Relayed {
		s.touch(domain{name: "host:" + relayed.Host})
	}
	if answered {
		s.addTools(r.Model)
	}
	s.addTrace(r)
}

// Len returns the number of the last receipt.
func (s *Session) Len() int64 { return s.number }

// Weight returns the memory in use, in receipts with one tool call and one result.
func (s *Session) Weight() int {
	const usual = 5 // a call, its time, a result, a tool call and its use
	return max(int(s.number), (len(s.calls)+len(s.received)+s.links+len(s.made)+len(s.used))/usual)
}

// Head returns the hash of the last receipt, or nothing.
func (s *Session) Head() string { return s.head }

// Event returns the id of the event that opened the session.
func (s *Session) Event() string { return s.event }

// Closed reports whether the last receipt closes the session.
func (s *Session) Closed() bool { return s.closed }

func (s *Session) believes(host string) bool {
	return len(host) <= maxHost && slices.Contains(s.believed, host)
}

func (s *Session) addCall(r *interaction.Receipt) {
	f, none := &r.Model.Figures, figure{state: notMeasured}
	c := call{
		at: float64(r.Timing.RequestReceived), end: float64(max(r.Timing.LLMEnd, r.Timing.RequestReceived)),
		duration: figureOf(f.Duration), tokens: figureOf(f.OutputTokens), gap: none, read: none, references: none,
		depth: none,
		model: s.modelOf(model{r.Model.Host, r.Model.Model}),
	}
	if s.follows {
		if c.gap = figureOf(f.Turnaround); c.gap.measured() {
			c.read = s.lastWords
		}
	}
	if !s.strayed {
		c.references, c.depth = figureOf(f.SelfReferences), figureOf(f.DepthRelayed)
	}
	bytes, entropy, compression := figureOf(f.SampleBytes), figureOf(f.WordEntropy), figureOf(f.Compression)
	if bytes.measured() && entropy.measured() && compression.measured() {
		c.sample = sample{bytes.value, entropy.value, compression.value}
	}
	s.lastWords = figureOf(f.OutputWords)
	s.calls = append(s.calls, c)
	if p := r.Model.Probe; p != nil && p.Answer != "" {
		if _, ok := s.answers[p.ID]; !ok {
			s.answers[p.ID] = p.Answer
		}
	}
}

func (s *Session) modelOf(m model) int {
	at := slices.Index(s.models, m)
	if at < 0 && len(s.models) < formula.Session.Models {
		at = len(s.models)
		s.models = append(s.models, m)
	}
	return at
}

// addTools links the results in the last answered call to the tool calls of earlier answers, and records its own.
func (s *Session) addTools(m *interaction.ModelCall) {
	at := len(s.calls) - 1
	for _, id := range m.ReturnedCalls {
		made, ok := s.made[id]
		if !ok {
			continue
		}
		s.calls[at].links = append(s.calls[at].links, link{made.maker, made.fresh})
		s.links++
		if made.tool != "" {
			s.touch(domain{name: "tool:" + made.tool, tool: true})
		}
	}
	for _, t := range m.ToolCalls {
		whole := t.Tool != "" && t.Arguments != ""
		u := use{t.Tool, t.Arguments}
		if _, ok := s.made[t.ID]; t.ID != "" && !ok {
			s.made[t.ID] = toolCall{at, whole && !s.used[u], t.Tool}
		}
		if whole {
			s.used[u] = true
		}
	}
}

// touch records a domain of the last answered call, or of the first if there is none yet.
func (s *Session) touch(d domain) {
	at := slices.Index(s.domains, d)
	if at < 0 {
		if at = len(s.domains); at == formula.Knowledge["domains"].Most {
			return
		}
		s.domains = append(s.domains, d)
	}
	t := touch{max(len(s.calls)-1, 0), at}
	if len(s.touches) == 0 || s.touches[len(s.touches)-1] != t {
		s.touches = append(s.touches, t)
	}
}
