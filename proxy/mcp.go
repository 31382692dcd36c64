package proxy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// lasting is what conversations know across all sessions. It survives a reload.
type lasting struct {
	tools mcp.Definitions // as shown by MCP servers
}

type mcpCall struct {
	plain
	mcp     mcp.Call
	message *mcp.Message     // nil if the request has none
	given   inference.Values // of a tool's result
}

func (m *mcpCall) choose(among []rules.Rule) (rules.Rule, error) {
	m.watch(rules.Of(among, rules.Rule.MCP))
	if m.r.Method != http.MethodPost {
		return m.chooseStream(among)
	}
	var err error
	m.message, err = mcp.Read(m.text(), m.r.Header)
	if m.message != nil {
		m.record.Message, m.record.MCP = m.message.Does(), m.message.Asks()
	}
	if err != nil {
		return rules.Rule{}, err
	}
	chosen, err := m.judge(among)
	if err != nil {
		return rules.Rule{}, err
	}
	if m.message.IsRequest() {
		if m.mcp.Flight, err = m.mcp.Memory.Begin(m.message, m.mcp.Peer, m.mcp.Rules,
			chosen.Action != nil); err != nil {
			return rules.Rule{}, err
		}
	}
	m.mcp.Sent = m.message
	if chosen.Action != nil {
		m.does = &policy.Message{MCP: &policy.MCP{
			Server: m.server(), Tool: m.message.Name, Arguments: m.message.BoundedArguments(policy.MaxArguments),
		}}
	}
	return chosen, nil
}

// server names the server without the URL's query, which may hold a secret.
func (m *mcpCall) server() string { return m.target.Authority() + m.r.URL.EscapedPath() }

func (m *mcpCall) watch(rules []*mcp.Rule) {
	budget := m.p.bodies.Answers(m.session.Party())
	m.mcp.Watch = mcp.Watch{
		Path: m.r.URL.EscapedPath(), Memory: &m.session.Memory,
		Peer:   mcp.NewPeer(m.target.String(), m.r.URL.EscapedPath(), m.r.URL.RawQuery, m.r.Header.Get("Mcp-Session-Id")),
		Shared: &m.p.lasting.tools, Rules: rules,
		Take: func(n int) bool { return budget.Take(n) == nil }, Free: budget.Free,
		Reads:   m.reads,
		Turn:    m.turn,
		Listed:  m.listed,
		Changed: m.changed,
	}
	if m.receipts() != nil {
		m.mcp.Returned = func(result []byte) { m.given = m.session.Chain.Values(result) }
	}
}

// reads reports whether a call of a method to a path is refused, or read with its answer.
func (m *mcpCall) reads(method, path string) bool {
	to, err := m.p.o.Rules.Find(m.target, method, path)
	if err != nil {
		code := refusal.CodeOf(err)
		return code != "request_malformed" && code != problem.CallDenied // the client may write that path in another way
	}
	return to.Kind == rules.MCP
}

// turn waits for the session's turn to read a text of an answer. Each turn ends, so the wait has no other bound.
func (m *mcpCall) turn(size int) (done func()) {
	// fails only if its context ends
	done, _ = m.p.bodies.Turn(context.WithoutCancel(m.r.Context()), m.session.Party(), size)
	return done
}

// chooseStream chooses the rule of a request without a message: it opens an event stream or ends a session.
func (m *mcpCall) chooseStream(among []rules.Rule) (rules.Rule, error) {
	m.mcp.Unread = m.r.Method != http.MethodGet
	if m.held != nil {
		return rules.Rule{}, refusal.New("message_malformed", "a %s to an MCP server must not have a body", m.r.Method)
	}
	chosen, err := rules.OfStream(among, m.r.Method)
	if err != nil {
		return rules.Rule{}, err
	}
	return chosen, mcp.CheckStream(m.r.Header)
}

func (m *mcpCall) judge(among []rules.Rule) (rules.Rule, error) {
	verdict, err := mcp.Judge(m.message, m.r.Header, m.mcp.Rules, m.mcp.Peer, m.mcp.Memory)
	m.mcp.Verdict = verdict
	if verdict.Human {
		m.p.flooded.Warn("a human answered an MCP server, or may have: the session can make no more posts",
			zap.String("session", m.session.ID), zap.String("server", m.server()))
	}
	if err != nil {
		return rules.Rule{}, err
	}
	return among[verdict.Rule], nil
}

// maxListed bounds the listed tools that one record names.
const maxListed = 256

func (m *mcpCall) listed(tool, hash string, named bool) {
	if len(m.record.Tools) < maxListed {
		m.record.Tools = append(m.record.Tools, ledger.Tool{Name: fmt.Sprintf("%.128s", tool), Hash: hash,
			Unnamed: !named})
	}
}

// maxToolChecks bounds the changed tools that one record and its log name.
const maxToolChecks = 32

// changed records that a server changed a tool's definition.
func (m *mcpCall) changed(tool, before, now string) {
	if len(m.record.Checks) >= maxToolChecks {
		return
	}
	_ = m.check("tool definition", refusal.New("mcp_tool_changed",
		"the definition of the tool %.128q has changed: its hash was %.64s and is now %.64s", tool, before, now))
	m.p.flooded.Warn("the definition of a tool has changed",
		zap.String("post", m.record.ID), zap.String("server", m.server()),
		zap.String("tool", fmt.Sprintf("%.128s", tool)), zap.String("before", before), zap.String("now", now))
}

func (m *mcpCall) sent(out *http.Request) (*http.Request, error) {
	m.mcp.Prepare(out)
	return out, nil
}

// answer records the request's result. For a post it reads to the end even if the agent leaves.
func (m *mcpCall) answer(ctx context.Context, resp *http.Response) error {
	err := m.mcp.Begin(resp)
	if err == nil {
		err = m.relay(ctx, resp)
	} else {
		err = cmp.Or(outlived(ctx), upstream.Classify(err))
	}
	answer := m.mcp.Answer
	if answer == nil {
		return err
	}
	if answer.GiveUp() && m.stage == answered {
		mcp.WriteEvent(m.w, m.forAgent(err), m.message) // otherwise a problem document follows
	}
	if m.intended() && answer.Result() == mcp.ResultLost {
		_, _ = io.Copy(io.Discard, resp.Body) // ends with the post's context
	}
	_ = answer.Close()
	m.setResult(answer.Result())
	if answer.Cut() != nil {
		_ = m.check("answer read", answer.Cut())
	}
	return err
}

// setResult records the result. A tool call with a broken answer may or may not have had its effect, and so may a post
// whose answer could not be read: it may have broken off too.
func (m *mcpCall) setResult(r mcp.Result) {
	m.record.Result = string(r)
	if r == mcp.ResultUnseen {
		m.given = inference.Values{} // the agent may have another result's
	}
	switch {
	case r == mcp.ResultLost && m.message.IsCall():
		m.indeterminate(refusal.New("indeterminate", "the answer ended before the result of the tool"))
	case r == mcp.ResultUnseen && m.intended():
		m.indeterminate(refusal.New("indeterminate", "the result of the tool could not be read"))
	}
}

func (m *mcpCall) refuse(w http.ResponseWriter, d problem.Details, err error) {
	if m.r.Method != http.MethodPost {
		m.plain.refuse(w, d, err)
		return
	}
	mcp.WriteProblem(w, d, m.message)
}

// keep keeps a request open whose result may still come.
func (m *mcpCall) keep() bool {
	if m.mcp.Answer == nil || !m.mcp.Answer.Resumable(mcp.Result(m.record.Result)) {
		return false
	}
	m.stage = kept
	m.mcp.Memory.Keep(m.mcp.Flight, m.p.o.Timeouts.Forward, func(r mcp.Result) {
		if r != mcp.ResultLost {
			m.resumed()
		}
		m.setResult(r)
		_ = m.p.finish(context.Background(), m.call) // finish logs its own error
	})
	m.mcp.Done(true)
	return true
}

func (m *mcpCall) end(handed time.Time) {
	m.count(true)
	if m.record.State == ledger.StateForwarded && m.mcp.Answer == nil && m.mcp.Sent != nil && m.mcp.Sent.IsRequest() {
		m.setResult(mcp.ResultUnseen) // the answer was withheld
	}
	if m.wentOut() && m.mcp.Sent != nil && m.message.IsCall() {
		m.receipts().Relay(m.session.Chain, receipts.Relayed{
			Host: m.record.Host, Tool: m.message.Name, Arguments: m.message.BoundedArguments(maxRelayedArguments),
			Gave: m.given,
		})
	}
	m.receipt.EndPost(m.record, handed)
	if m.stage != kept {
		m.mcp.Done(m.record.State != ledger.StateRefused && m.record.State != ledger.StateFailed)
	}
}

// maxRelayedArguments bounds the tool arguments compared with those that models asked for.
const maxRelayedArguments = 64 << 10
