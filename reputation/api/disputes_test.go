package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
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

func (c *caller) speaks(path string, d dispute.Document, into any) {
	c.t.Helper()
	token, body := c.says(path, d)
	c.ok("POST", path, token, body, into)
	c.states = ""
}

func TestDisputes(t *testing.T) {
	k := gatetest.New(t)
	root, decide := nodetest.Arbiter(t, k)
	c := callerOf(t, nodetest.New(t, k, nil, func(o *reputation.Options) { o.Disputes.Court.First = dispute.Panel{{Root: root}} }))
	n := c.node
	one, two, stranger := n.Agent(t, "agent:one").String(), n.Agent(t, "agent:two").String(), nodetest.NewStranger(t)

	var signal reputation.Signal
	c.speaks(signals, n.SignalOf(one, "s-1"), &signal)
	own := stranger.Says(t, n.SignalOf(stranger.ID, "s-2")).Document
	c.ok("POST", signals, "", own, &signal)
	if signal.Number != 2 || signal.Status != reputation.StatusProvisional {
		t.Errorf("%+v", signal)
	}
	var contract, challenge, again reputation.Dispute
	c.speaks(file, n.Contract(two, "con-1", "s-1"), &contract)
	s := n.Calls(t, "ses_1", 3)
	s.Close(t)
	n.Delivered(t, 5, s.Receipts...)
	n.Kit.Clock.Advance(time.Second)
	c.speaks(file, dispute.Challenge{ChallengerID: one, TargetID: k.Agent(t).String(), ChallengeType: dispute.TypeTiming,
		TargetReceipts: []string{evidence.HashToken(s.Receipts[0])}}, &challenge)
	own = stranger.Says(t, n.Contract(stranger.ID, "con-2", "s-1")).Document
	c.ok("POST", file, "", own, &again)
	must(t, n.Settle(t.Context()))
	c.get("/v1/disputes/"+challenge.DisputeID, &challenge)
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
	c.get(signals+"/s-1", &signal)
	if signal.Status != reputation.StatusFinal {
		t.Errorf("%+v", signal)
	}
	var reputed accrual.Claims
	c.get("/v1/reputation/"+url.PathEscape(one), &reputed)
	if r := reputed; r.ChallengesLost != 1 || r.DisputesPending != 1 || !r.Disputed || r.DisputesLost != 1 {
		t.Errorf("%+v", r)
	}
	reputed = accrual.Claims{}
	c.get("/v1/reputation/"+stranger.ID, &reputed)
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
	c.speaks(file, of, &d)
	must(t, n.Settle(t.Context()))
	c.get("/v1/disputes/"+d.DisputeID, &d)
	e, err := dispute.ParseEntry(d.Resolved)
	must(t, err)
	check.WantEqual(t, []string{d.Outcome, e.Resolved.Fault}, []string{accrual.ChallengerWins, of.TargetReceipts[0]})
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
		c.get("/v1/schemas/"+name, &schema)
		delete(schema, "$schema")
		delete(schema, "$id")
		check.WantEqual(t, document.Components.Schemas[of], schema)
	}
	c.refusedGet("not_found", "/v1/schemas/other")
	c.refusedGet("not_found", "/v1/schemas/..%2Fsignal")
}

// TestMadeUpDecisionsCost: each costs a signature check, and counts twice.
func TestMadeUpDecisionsCost(t *testing.T) {
	c := newCaller(t)
	for _, path := range []string{"/v1/disputes/dsp_1/resolution", "/v1/disputes/clock"} {
		c.from = "192.0.2." + strconv.Itoa(len(path)) + ":7"
		n := 0
		for ; n < 1000; n++ {
			if w, _ := c.do("POST", path, "", []byte(`{}`)); w.StatusCode == http.StatusTooManyRequests {
				break
			}
		}
		if n > 3*api.DefaultRate { // of 5
			t.Errorf("%s: %d made-up decisions", path, n)
		}
	}
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
	c.refusedGet("not_found", signals+"/s-1")
	c.refusedGet("not_found", "/v1/disputes/dsp_1")
	c.refusedGet("not_found", "/v1/disputes/%00")
	c.refusedGet("node_method", signals)
	c.refused("not_configured", "POST", "/v1/disputes/dsp_1/resolution", "", []byte(`{"decision":"x"}`))
	c.refused("query_malformed", "POST", "/v1/disputes/dsp_1/resolution", "", []byte(`{}x`))
	c.refusedGet("node_method", file)

	r := httptest.NewRequest("POST", "http://node"+signals, nil)
	r.Header[interaction.StatementHeader] = []string{"one", "two"}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("two statements: %d", w.Code)
	}
	off := callerOf(t, nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Disputes = nil }))
	off.refused("not_configured", "POST", signals, "", body)
	off.refusedGet("not_configured", logPath)
	off.refusedGet("not_configured", logPath+"/checkpoint")
}
