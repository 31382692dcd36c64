package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/mcp"
)

// kindMCP is the kind of an endpoint of an MCP server.
const kindMCP = "mcp"

// mcpJudge reads calls to MCP servers.
type mcpJudge struct{ p *Pipeline }

func (j mcpJudge) read(c *call, rules []rule) (rule, error) {
	of := make([]*mcp.Rule, len(rules))
	for i, r := range rules {
		of[i] = r.mcp()
	}
	memory := &c.session.Memory
	server := c.target.Authority() + c.r.URL.EscapedPath()
	peer := mcp.Peer{Server: c.target.Scheme + "://" + server, Session: c.r.Header.Get("Mcp-Session-Id")}
	if c.r.URL.RawQuery != "" { // which may hold a secret
		peer.Query = evidence.HashBytes([]byte(c.r.URL.RawQuery))
	}
	budget := j.p.bodies.Answers()
	c.mcp = &mcp.Call{Watch: mcp.Watch{
		Header: c.r.Header, Peer: peer, Memory: memory, Shared: j.p.definitions, Rules: of,
		Take: func(n int) bool { return budget.Take(n) == nil }, Free: budget.Free,
		Changed:  func(tool, before, now string) { j.changed(c, tool, before, now) },
		Returned: func(result []byte) { c.given = j.p.o.Receipts.Values(c.session.Chain, result) },
	}}
	if c.r.Method != http.MethodPost { // an event stream, or the end of a session
		c.mcp.Unread = c.r.Method != http.MethodGet
		if c.held != nil {
			return rule{}, refusal.New("mcp_message_malformed", "a %s to an MCP server has no body", c.r.Method)
		}
		i := slices.IndexFunc(of, func(r *mcp.Rule) bool { return !r.Post })
		return rules[max(i, 0)], mcp.CheckStream(c.r.Header)
	}
	var text []byte
	if c.held != nil {
		text = c.held.Text
	}
	m, err := mcp.Read(text, c.r.Header)
	c.refusal = func(w http.ResponseWriter, d problem.Details) { mcp.WriteProblem(w, d, m) }
	if m != nil {
		c.record.Message = m.Does()
	}
	if err != nil {
		return rule{}, err
	}
	verdict, err := mcp.Judge(m, c.r.Header, of, peer, memory)
	if err != nil {
		return rule{}, err
	}
	if verdict.Human {
		if err := memory.HumanAnswers(c.session.Prompted); err != nil {
			return rule{}, err
		}
		j.p.o.Log.Warn("a human has answered an MCP server: the session makes no posts any more", zap.String("session", c.session.ID), zap.String("server", server))
	}
	chosen := rules[verdict.Rule]
	if m.IsRequest() {
		if c.mcp.Flight, err = memory.Begin(m, peer, chosen.action != nil); err != nil {
			return rule{}, err
		}
	}
	c.mcp.Sent = m
	if chosen.action != nil {
		c.message = &policy.Message{MCP: &policy.MCP{Server: server, Tool: m.Name, Arguments: m.BoundedArguments(policy.MaxArguments)}}
	}
	return chosen, nil
}

// changed says that a server has shown a tool with another definition than before.
func (j mcpJudge) changed(c *call, tool, before, now string) {
	if len(c.record.Checks) >= maxToolChecks {
		return
	}
	_ = c.check("tool definition", refusal.New("mcp_tool_changed", "the definition of the tool %.128q has changed: its hash was %.64s and is %.64s", tool, before, now))
	j.p.o.Log.Warn("the definition of a tool has changed", zap.String("post", c.record.ID), zap.String("server", c.mcp.Peer.Server),
		zap.String("tool", fmt.Sprintf("%.128s", tool)), zap.String("before", before), zap.String("now", now))
}

// maxToolChecks bounds how many changed tools stand in one record, and in the log for it.
const maxToolChecks = 32

// concludeMCP notes what became of the request that a call was, by the answer that has been relayed. Of a post it reads what the agent did not
// wait for.
func (c *call) concludeMCP(rest io.Reader) {
	if c.mcp == nil || c.mcp.Answer == nil {
		return
	}
	if c.begun && c.mcp.Answer.Result() == mcp.ResultLost {
		_, _ = io.Copy(io.Discard, rest) // which ends with the context of the post
	}
	c.mcp.Answer.Close()
	c.setResult(c.mcp.Answer.Result())
	if !c.mcp.Answer.Followed() {
		_ = c.check("answer read", refusal.New("mcp_answer_unread", "the answer could not be read as it passed: what it says is not known here"))
	}
}

// setResult notes the result of a request. A call whose answer broke off may have had its effect or not.
func (c *call) setResult(r mcp.Result) {
	c.record.Result = string(r)
	if r == mcp.ResultLost && c.mcp.Sent.IsCall() {
		c.record.State = ledger.StateIndeterminate
		c.refuse(refusal.New("indeterminate", "the answer ended before the result of the tool"))
	}
}

// keepOpen reports whether the record of a call waits for a resumed answer. If so, it is finished later, and not by the caller.
func (p *Pipeline) keepOpen(c *call) bool {
	if c.mcp == nil || c.mcp.Answer == nil || !c.mcp.Answer.Resumable() || !c.mcp.Sent.IsCall() {
		return false
	}
	c.kept = true
	c.session.Memory.Keep(c.mcp.Answer, p.o.Timeouts.Forward, func(r mcp.Result) {
		if r != mcp.ResultLost {
			c.record.State, c.record.Code, c.record.Step, c.record.Reason = ledger.StateForwarded, "", "", ""
		}
		c.setResult(r)
		_ = p.finish(context.Background(), c)
	})
	return true
}
