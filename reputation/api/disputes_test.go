package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

const (
	signals = "/v1/signals"
	file    = "/v1/dispute"
)

func (c *caller) says(path string, d dispute.Document) (token string, body []byte) {
	c.t.Helper()
	from := c.node.Says(c.t, d)
	c.states = from.Statement
	c.t.Cleanup(func() { c.states = "" })
	return c.node.CallerToken(c.t, from.By.Session, path, from.Document, func(of *interaction.Caller) {
		of.Agent = from.By.Agent
	}), from.Document
}

func TestDisputes(t *testing.T) {
	var decide func(func(*dispute.Decision)) string
	k := gatetest.New(t)
	root, decide := nodetest.Arbiter(t, k)
	c := callerOf(t, nodetest.New(t, k, nil, func(o *reputation.Options) { o.Disputes.Arbiter = &root }))
	n := c.node
	one, two, stranger := n.Agent(t, "agent:one").String(), n.Agent(t, "agent:two").String(), nodetest.NewStranger(t)

	var signal reputation.Signal
	token, body := c.says(signals, n.SignalOf(one, "s-1"))
	c.ok("POST", signals, token, body, &signal)
	c.states = ""
	own := stranger.Says(t, n.SignalOf(stranger.ID, "s-2")).Document
	c.ok("POST", signals, "", own, &signal)
	if signal.Number != 2 || signal.Status != reputation.StatusProvisional {
		t.Errorf("%+v", signal)
	}
	var contract, challenge, again reputation.Dispute
	token, body = c.says(file, n.Contract(two, "con-1", "s-1"))
	c.ok("POST", file, token, body, &contract)
	s := n.Calls(t, "ses_1", 3)
	s.Close(t)
	n.Delivered(t, 5, s.Receipts...)
	n.Kit.Clock.Advance(time.Second)
	token, body = c.says(file,
		dispute.Challenge{ChallengerID: one, TargetID: k.Agent(t).String(), ChallengeType: dispute.TypeTiming,
			TargetReceipts: []string{evidence.HashToken(s.Receipts[0])}})
	c.ok("POST", file, token, body, &challenge)
	c.states = ""
	own = stranger.Says(t, n.Contract(stranger.ID, "con-2", "s-1")).Document
	c.ok("POST", file, "", own, &again)
	must(t, n.Settle(t.Context()))
	c.ok("GET", "/v1/disputes/"+challenge.DisputeID, "", nil, &challenge)
	if challenge.Outcome != accrual.TargetWins || challenge.Provisional {
		t.Errorf("%+v", challenge)
	}
	e, err := dispute.ParseEntry(contract.Opened)
	must(t, err)
	decided := encode(t, m{"decision": decide(func(of *dispute.Decision) {
		of.DisputeID, of.Document = contract.DisputeID, e.Opened.Document
	})})
	for range 2 {
		c.ok("POST", "/v1/disputes/"+contract.DisputeID+"/resolution", "", decided, &contract)
	}
	if contract.Outcome != accrual.ChallengerWins || !contract.Provisional || contract.Resolution == "" {
		t.Errorf("%+v", contract)
	}
	n.Kit.Clock.Advance(24 * time.Hour)
	must(t, n.Settle(t.Context()))
	c.ok("GET", signals+"/s-1", "", nil, &signal)
	if signal.Status != reputation.StatusFinal {
		t.Errorf("%+v", signal)
	}
	var published struct{ Signals []reputation.Signal }
	c.ok("GET", signals+"?agent="+url.QueryEscape(one), "", nil, &published)
	check.WantEqual(t, published.Signals, []reputation.Signal{signal})
	c.ok("GET", signals+"?after=1&agent="+url.QueryEscape(one), "", nil, &published)
	if len(published.Signals) != 0 {
		t.Errorf("%+v", published)
	}
	var filed struct{ Disputes []reputation.Dispute }
	c.ok("GET", "/v1/disputes?agent="+url.QueryEscape(one), "", nil, &filed)
	if len(filed.Disputes) != 3 || filed.Disputes[0].DisputeID != contract.DisputeID ||
		filed.Disputes[1].DisputeID != challenge.DisputeID || filed.Disputes[2].DisputeID != again.DisputeID {
		t.Errorf("%+v", filed)
	}
	c.ok("GET", fmt.Sprintf("/v1/disputes?after=%d&agent=%s", filed.Disputes[1].Number, url.QueryEscape(one)), "", nil,
		&filed)
	if len(filed.Disputes) != 1 {
		t.Errorf("%+v", filed)
	}
	var log struct{ Entries []reputation.LogEntry }
	c.ok("GET", "/v1/disputes/log", "", nil, &log)
	book := dispute.NewBook()
	for _, one := range log.Entries {
		e, err := dispute.ParseEntry(one.Entry)
		must(t, err)
		_, err = book.Add(e)
		must(t, err)
	}
	var rooted struct {
		Root  dispute.Root
		Token string
	}
	c.ok("GET", "/v1/disputes/root", "", nil, &rooted)
	signed, err := evidence.UnverifiedClaims(dispute.RootKind, rooted.Token)
	must(t, err)
	check.WantEqual(t, rooted.Root, signed)
	if signed.Root != book.Root() || signed.Log != book.Log() {
		t.Errorf("%+v, and the log gives %s", signed, book.Root())
	}
	var reputed accrual.Claims
	c.ok("GET", "/v1/reputation/"+url.PathEscape(one), "", nil, &reputed)
	if r := reputed; r.ChallengesLost != 1 || r.DisputesPending != 1 || !r.Disputed || r.DisputesLost != 1 {
		t.Errorf("%+v", r)
	}
	reputed = accrual.Claims{}
	c.ok("GET", "/v1/reputation/"+stranger.ID, "", nil, &reputed)
	if r := reputed; r.AgentID != stranger.ID || r.Owner != "" {
		t.Errorf("%+v", r)
	}
}

func TestLostByReceipts(t *testing.T) {
	c := newCaller(t)
	n := c.node
	s := n.Kit.Session(t, "ses_1")
	s.Call(t, func(r *interaction.Receipt) { r.Model.Figures.Duration = interaction.Observed(99_000) })
	n.Delivered(t, 2, s.Receipts...)
	n.Kit.Clock.Advance(time.Second)
	of := dispute.Challenge{ChallengerID: n.Agent(t, "agent:one").String(), TargetID: n.Kit.Agent(t).String(),
		ChallengeType: dispute.TypeTiming, TargetReceipts: []string{evidence.HashToken(s.Receipts[0])}}
	var d reputation.Dispute
	token, body := c.says(file, of)
	c.ok("POST", file, token, body, &d)
	must(t, n.Settle(t.Context()))
	c.ok("GET", "/v1/disputes/"+d.DisputeID, "", nil, &d)
	e, err := dispute.ParseEntry(d.Resolved)
	must(t, err)
	check.WantEqual(t, []string{d.Outcome, e.Resolved.Fault}, []string{accrual.ChallengerWins, of.TargetReceipts[0]})
	c.ok("GET", "/v1/disputes/log", "", nil, &struct{ Entries []reputation.LogEntry }{})
}

func TestRated(t *testing.T) {
	c := newCaller(t)
	n, agent := c.node, c.node.Kit.Agent(t).String()
	token, body := c.says(signals, n.SignalOf(agent, "s-1"))
	c.ok("POST", signals, token, body, &reputation.Signal{})
	for i := range 10 {
		s := n.Calls(t, fmt.Sprint("ses_", i), 2)
		s.Close(t)
		n.Delivered(t, 4, s.Receipts...)
	}
	must(t, n.Enter(t.Context()))
	n.Kit.Clock.Advance(48 * time.Hour)
	must(t, n.Settle(t.Context()))
	n.Kit.Clock.Advance(24 * time.Hour)
	var reputed accrual.Claims
	c.ok("GET", "/v1/reputation/"+url.PathEscape(agent), "", nil, &reputed)
	if reputed.Rating == nil {
		t.Error("there is no rating")
	}
}

func TestSchemas(t *testing.T) {
	c := newCaller(t)
	var document struct {
		Components struct{ Schemas map[string]m }
	}
	must(t, json.Unmarshal(api.Description(), &document))
	for name, of := range map[string]string{"signal": "SignalDocument", "contract": "ContractDocument",
		"challenge": "ChallengeDocument"} {
		var schema m
		c.ok("GET", "/v1/schemas/"+name, "", nil, &schema)
		delete(schema, "$schema")
		delete(schema, "$id")
		check.WantEqual(t, document.Components.Schemas[of], schema)
	}
	c.refused("not_found", "GET", "/v1/schemas/other", "", nil)
	c.refused("not_found", "GET", "/v1/schemas/..%2Fsignal", "", nil)
}

func TestRefusedDisputes(t *testing.T) {
	c := newCaller(t)
	n := c.node
	one := n.Agent(t, "agent:one").String()
	token, body := c.says(signals, n.SignalOf(one, "s-1"))
	c.refused("caller_invalid", "POST", file, token, body)
	c.refused("caller_invalid", "POST", signals, token, append(body, ' '))
	c.states = ""
	c.refused("statement_signature", "POST", signals, token, body)
	c.refused("statement_signature", "POST", signals, "", body)
	c.refused("statement_malformed", "POST", signals, "", []byte("{}"))
	c.refused("statement_malformed", "POST", file, "", []byte("[]"))
	c.refused("content_too_large", "POST", file, "", make([]byte, dispute.MaxSize+1))
	c.refused("not_found", "GET", signals+"/s-1", "", nil)
	c.refused("not_found", "GET", "/v1/disputes/dsp_1", "", nil)
	c.refused("not_found", "GET", "/v1/disputes/%00", "", nil)
	c.refused("query_malformed", "GET", signals, "", nil)
	c.refused("query_malformed", "GET", "/v1/disputes?agent=nobody", "", nil)
	for _, after := range []string{"-1", "x", "99999999999999999999"} {
		c.refused("query_malformed", "GET", "/v1/disputes/log?after="+after, "", nil)
	}
	c.refused("not_configured", "POST", "/v1/disputes/dsp_1/resolution", "", []byte(`{"decision":"x"}`))
	c.refused("query_malformed", "POST", "/v1/disputes/dsp_1/resolution", "", []byte(`{}x`))
	c.refused("node_method", "GET", file, "", nil)

	r := httptest.NewRequest("POST", "http://node"+signals, nil)
	r.Header[interaction.StatementHeader] = []string{"one", "two"}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("two statements: %d", w.Code)
	}
	off := callerOf(t, nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Disputes = nil }))
	off.refused("not_configured", "POST", signals, "", body)
	off.refused("not_configured", "GET", "/v1/disputes/root", "", nil)
}
