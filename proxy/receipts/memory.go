package receipts

import (
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/inference"
)

// Beyond these bounds figures are not measured.
const (
	maxBlocks = 4096
	maxCalls  = 1024
	maxValues = 4096
	entrySize = 96 // approximate bytes of an entry
)

// The chain's mutex guards the memory.
type memory struct {
	taken  int64 // bytes reserved
	totals interaction.SessionTotals

	lastEnd time.Time        // of the last answered model call
	ready   time.Time        // when the agent could read its answer: see [inference.Interaction]
	asking  map[*Call]bool   // open model calls
	blocks  map[tag]block    // of requests and answers, by hash
	calls   map[tag]*toolUse // made by answers, by tag of their id
	byWork  map[tag]work     // the last for each tool and arguments
	lost    bool             // some blocks or calls were left out
	given   values           // from results in requests
	relayed values           // from MCP servers' results

	relays     []interaction.RelayedCall // the last since the last receipt
	relayCount int64
	samples    map[string]*sample
}

type block struct {
	said     bool // by a model
	returned bool // in a later request
}

type toolUse struct {
	returned bool
	depth    int64
}

// work is the last call of a tool with its arguments.
type work struct {
	id      tag
	relayed bool // an MCP server was called for it; a further call is the agent's own
}

// values are results' values, each with the greatest depth of a call that returned it.
type values struct {
	depth map[uint64]int64
	lost  bool // some were left out
}

// put adds an entry to a map of at most most entries.
func put[K comparable, V any](c *Chain, m *map[K]V, key K, value V, most int) bool {
	if _, ok := (*m)[key]; !ok {
		if len(*m) >= most || !c.take(entrySize) {
			return false
		}
	}
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
	return true
}

func (v *values) keep(c *Chain, of inference.Values, depth int64) {
	if v.lost = v.lost || !of.All; v.lost {
		v.depth = nil
		return
	}
	for _, h := range of.Hashes {
		if !put(c, &v.depth, h, max(depth, v.depth[h]), maxValues) {
			v.lost = true
		}
	}
}

func (v *values) deepest(of inference.Values) (depth int64) {
	v.lost = v.lost || !of.All
	for _, h := range of.Hashes {
		depth = max(depth, v.depth[h])
	}
	return depth
}

func (v *values) figure(state string, depth int64) interaction.Figure {
	if v.lost {
		return interaction.NotMeasured
	}
	return interaction.Figure{State: state, Value: depth}
}

func (c *Chain) workOf(tool string, arguments tag) tag {
	return tag(c.mac("work", arguments[:], []byte(tool))[:16])
}

// A result that returns for the first time is always measured.
func (c *Chain) knows(b inference.Block) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.memory.blocks[tag(b.Hash[:16])]
	if !known || b.Kind != inference.KindResult || b.ID == "" {
		return known || c.memory.lost
	}
	use := c.memory.calls[c.tagOf("call", b.ID)]
	return use == nil || use.returned
}

// asked sets a request's figures and remembers its content. The caller holds c.mu.
func (m *memory) asked(c *Chain, of ModelRequest, now time.Time, call *interaction.ModelCall) {
	q, f := of.Request, &call.Figures
	f.InputBytes = interaction.Observed(int64(q.AskedBytes))
	// A request that began before the previous answer ended does not follow from it: clients can send requests ahead
	// (HTTP/1.1 pipelining). Slow requests and unread answers only lengthen the turnaround.
	follows := !m.lastEnd.IsZero() && len(m.asking) == 0 && !of.Ahead && !of.Record.Started.Before(m.lastEnd)
	if follows && !now.Before(m.lastEnd) {
		f.Turnaround = millis(now.Sub(m.ready))
	}
	words, unmatched, references := int64(0), int64(0), int64(0)
	for _, b := range q.Asked {
		// a first result has measurements even if its text is known
		if _, known := m.blocks[tag(b.Hash[:16])]; !known && b.Measured != nil {
			words += int64(b.Measured.Words)
		}
		if m.brought(c, b) {
			references++
		}
		if b.Kind == inference.KindResult && !m.result(c, b, call) {
			unmatched++
		}
	}
	if whole := len(q.Asked) == q.AskedCount; !whole {
		m.given.lost = true
	} else if !m.lost {
		f.NewInputWords, f.UnmatchedResults, f.SelfReferences = interaction.Observed(words),
			interaction.Observed(unmatched), interaction.Observed(references)
	}
}

const roleModel = "assistant"

// brought reports whether the block is the first to return a model's words as the model's own: equal words of a user or
// a tool do not count.
func (m *memory) brought(c *Chain, b inference.Block) bool {
	key := tag(b.Hash[:16])
	was := m.blocks[key]
	own := was.said && b.Role == roleModel && b.Kind != inference.KindResult
	first := own && !was.returned && b.Size > 0
	was.returned = was.returned || own
	m.lost = m.lost || !put(c, &m.blocks, key, was, maxBlocks)
	return first
}

// result reports whether an answer in this session made the call.
func (m *memory) result(c *Chain, b inference.Block, call *interaction.ModelCall) bool {
	if b.ID == "" {
		return false
	}
	id := c.tagOf("call", b.ID)
	use := m.calls[id]
	if use == nil {
		return false
	}
	if !use.returned && len(call.ReturnedCalls) < interaction.MaxReturned {
		call.ReturnedCalls = append(call.ReturnedCalls, id.String())
	}
	use.returned = true
	if b.Measured != nil {
		m.given.keep(c, b.Measured.Values, use.depth)
	}
	return true
}

// answered remembers a model's answer, and sets the figures that depend on the session. The caller holds c.mu.
func (c *Chain) answered(call *Call, in inference.Interaction) {
	if in.Outcome == inference.OutcomeComplete {
		c.answers++
	}
	m := &c.memory
	delete(m.asking, call)
	// their turnaround was not measured from their predecessor in the chain
	for other := range m.asking {
		other.overtaken = true
	}
	if !in.Head.IsZero() {
		m.lastEnd, m.ready = in.End, in.Ready
	}
	deepest, deepestRelayed := int64(0), int64(0)
	for _, b := range in.Said {
		key := tag(b.Hash[:16])
		if b.Hash != [32]byte{} {
			was := m.blocks[key]
			was.said = true
			m.lost = m.lost || !put(c, &m.blocks, key, was, maxBlocks)
		}
		if b.Kind != inference.KindCall {
			continue
		}
		var of inference.Values
		if b.Measured != nil {
			of = b.Measured.Values
		}
		use := &toolUse{depth: m.given.deepest(of) + 1}
		deepest, deepestRelayed = max(deepest, use.depth), max(deepestRelayed, m.relayed.deepest(of))
		if b.ID == "" {
			continue
		}
		id := c.tagOf("call", b.ID)
		if m.calls[id] == nil { // a repeated id is the first call's
			m.lost = m.lost || !put(c, &m.calls, id, use, maxCalls)
		}
		m.relayed.lost = !put(c, &m.byWork, c.workOf(b.Name, key), work{id: id}, maxCalls) || m.relayed.lost
	}
	if !in.Head.IsZero() && in.Reason == inference.ReasonNone && in.SaidAll {
		f := &call.claims.Model.Figures
		f.Depth = m.given.figure(interaction.StateDeclared, deepest)
		f.DepthRelayed = m.relayed.figure(interaction.StateObserved, deepestRelayed)
	}
}

// Relayed is an MCP tool call that has passed.
type Relayed struct {
	Host, Tool string
	Arguments  []byte           // JSON; nil if too large
	Gave       inference.Values // of the result, see [Chain.Values]
}

// Values returns what a later model request could repeat of a tool's result.
func (c *Chain) Values(result []byte) inference.Values {
	return (&inference.Measure{Seed: c.seed}).ValuesOf(string(result))
}

// Relay notes a tool call that has passed, for the session's next receipts.
func (k *Keeper) Relay(c *Chain, r Relayed) {
	if k == nil {
		return
	}
	k.begin(c)
	var brought inference.Values
	relayed := interaction.RelayedCall{Host: clipHost(r.Host), Tool: clipText(r.Tool, maxText)}
	var arguments tag
	if r.Arguments != nil {
		hash := inference.HashArguments(c.key[:], r.Arguments)
		arguments = tag(hash[:16])
		relayed.Arguments = arguments.String()
		brought = c.Values(r.Arguments)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return // no receipt follows
	}
	m := &c.memory
	// Calls that no model made have depth 0, because an agent can build any path of them.
	depth, key := int64(0), c.workOf(r.Tool, arguments)
	if asked, ok := m.byWork[key]; ok && r.Arguments != nil {
		relayed.CallID = asked.id.String()
		if !asked.relayed {
			depth = m.relayed.deepest(brought) + 1
			m.byWork[key] = work{asked.id, true}
		}
	}
	m.relayed.lost = m.relayed.lost || r.Arguments == nil
	m.relayed.keep(c, r.Gave, depth)
	m.relays = append(m.relays, relayed)
	m.relays = m.relays[max(0, len(m.relays)-interaction.MaxRelayed):]
	m.relayCount++
}

// Going keeps the chain open for a call without a receipt, until [Chain.Over].
func (c *Chain) Going() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.going++
}

// Over undoes [Chain.Going] when that call ends.
func (c *Chain) Over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.going--; c.keeper != nil {
		c.work()
	}
}

// Count counts a call that went out, its body's bytes, and whether it was read here.
func (c *Chain) Count(sent int64, read bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.memory.totals
	t.Calls++
	t.BytesOut += sent
	if read {
		t.CallsObserved++
		t.BytesOutObserved += sent
	}
}
