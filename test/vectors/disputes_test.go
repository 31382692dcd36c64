package vectors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
)

type disputeVector struct {
	Name string `json:"name"`

	Kind     string `json:"kind,omitempty"`
	Document string `json:"document,omitempty"`
	Own      bool   `json:"own,omitempty"`
	Hash     string `json:"hash,omitempty"`

	Log   []dispute.Entry `json:"log,omitempty"`
	State json.RawMessage `json:"state,omitempty"`

	Filing *filingJSON     `json:"filing,omitempty"`
	ID     string          `json:"dispute_id,omitempty"`
	Entry  json.RawMessage `json:"entry,omitempty"`

	Trial *trialJSON       `json:"trial,omitempty"`
	Early *dispute.Finding `json:"early,omitempty"`
	Late  *dispute.Finding `json:"late,omitempty"`

	Typ     string `json:"typ,omitempty"`
	Token   string `json:"token,omitempty"`
	At      int64  `json:"at,omitempty"`
	Verdict string `json:"verdict"`
}

type filingJSON struct {
	At         int64           `json:"at"`
	Document   json.RawMessage `json:"document"`
	Registered int64           `json:"registered,omitempty"`
	Receipts   []knownJSON     `json:"receipts,omitempty"`
}

type knownJSON struct {
	Hash    string `json:"hash"`
	Agent   string `json:"agent"`
	Session string `json:"session"`
	At      int64  `json:"at"`
}

type trialJSON struct {
	Type     string        `json:"challenge_type"`
	Receipts []string      `json:"target_receipts"`
	Sessions []sessionJSON `json:"sessions"`
	Forged   []string      `json:"forged,omitempty"`
	Judged   []string      `json:"judged,omitempty"`
}

type sessionJSON struct {
	Receipts   []heldJSON           `json:"receipts"`
	Others     []heldJSON           `json:"others,omitempty"`
	Challenges []autonomy.Challenge `json:"challenges,omitempty"`
}

type heldJSON struct {
	Hash    string          `json:"hash"`
	Receipt json.RawMessage `json:"receipt"`
}

type disputesFile struct {
	About    string                  `json:"about"`
	At       int64                   `json:"at"`
	Skew     int64                   `json:"skew"`
	Trust    trustJSON               `json:"trust"`
	Expected map[string]expectedJSON `json:"expected"`
	Windows  map[string]int64        `json:"windows"`
	Deadline int64                   `json:"deadline"`
	Vectors  []disputeVector         `json:"vectors,omitempty"`
}

func (f disputesFile) verify(v disputeVector) string {
	switch {
	case v.Kind != "":
		return v.verifyDocument()
	case v.Filing != nil:
		id, entry, err := v.file()
		if got := canonicalOf([]any{id, entry}); got != canonicalOf([]any{v.ID, v.Entry}) {
			return "another answer: " + got
		}
		return codeOf(err)
	case v.Trial != nil:
		early, late := v.Trial.judge()
		if got := canonicalOf([]any{early, late}); got != canonicalOf([]any{v.Early, v.Late}) {
			return "another finding: " + got
		}
		return "ok"
	case v.Token != "":
		return f.verifyToken(v)
	}
	if got := stateOf(v.Log); got != canonicalOf(v.State) {
		return "another state: " + got
	}
	return "ok"
}

func (v disputeVector) verifyDocument() string {
	d, err := parsed(v.Kind, []byte(v.Document))
	if err != nil {
		return codeOf(err)
	}
	if hash := must(dispute.HashOf(d)); hash != v.Hash {
		return "another hash: " + hash
	}
	if v.Own {
		return codeOf(dispute.VerifyOwn(d))
	}
	return "ok"
}

func parsed(kind string, raw []byte) (dispute.Document, error) {
	if kind == "signal" {
		s, err := dispute.ParseSignal(raw)
		return s, err
	}
	f, err := dispute.ParseFiling(raw)
	return f.Document(), err
}

func (f disputesFile) verifyToken(v disputeVector) string {
	now := f.At
	if v.At != 0 {
		now = v.At
	}
	verifier, err := f.Trust.verifier(now)
	if err != nil {
		return codeOf(err)
	}
	want := f.Expected[v.Typ].expected()
	switch v.Typ {
	case dispute.ResolutionKind.Typ:
		_, err = evidence.Open(verifier, dispute.ResolutionKind, v.Token, want)
	case dispute.DecisionKind.Typ:
		_, err = evidence.Open(verifier, dispute.DecisionKind, v.Token, want)
	}
	return codeOf(err)
}

func (v disputeVector) file() (id string, entry json.RawMessage, err error) {
	b := must(dispute.Replay(v.Log))
	var in dispute.Filed
	if v.Filing.Registered != 0 {
		in.By.Registered = time.Unix(v.Filing.Registered, 0)
	}
	now := time.Unix(v.Filing.At, 0)
	var signal struct {
		Statement *string `json:"statement"`
	}
	mustDo(json.Unmarshal(v.Filing.Document, &signal))
	var e *dispute.Entry
	if signal.Statement != nil {
		s, parseErr := dispute.ParseSignal(v.Filing.Document)
		mustDo(parseErr)
		e, err = b.Publish(dispute.DefaultRules, dispute.Publication{Signal: s, By: in.By}, now)
	} else {
		in.Filing = must(dispute.ParseFiling(v.Filing.Document))
		for _, k := range v.Filing.Receipts {
			in.Receipts = append(in.Receipts, dispute.Known(k))
		}
		id, e, err = b.File(dispute.DefaultRules, in, now)
	}
	if e != nil {
		entry = must(e.Encode())
	}
	return id, entry, err
}

func (t trialJSON) judge() (early, late *dispute.Finding) {
	judged := make(map[string]bool)
	for _, hash := range t.Judged {
		judged[hash] = true
	}
	trial := dispute.NewTrial(dispute.Opened{Type: t.Type, Receipts: t.Receipts}, judged)
	read := func(h heldJSON) *interaction.Receipt {
		var r interaction.Receipt
		mustDo(json.Unmarshal(h.Receipt, &r))
		return &r
	}
	for _, s := range t.Sessions {
		r := trial.Session(s.Challenges)
		for _, h := range s.Receipts {
			r.Add(h.Hash, read(h))
		}
		for _, h := range s.Others {
			r.Other(h.Hash, read(h))
		}
	}
	for _, hash := range t.Forged {
		trial.Forged(hash)
	}
	if f, ended := trial.Judge(false); ended {
		early = &f
	}
	f, _ := trial.Judge(true)
	return early, &f
}

func stateOf(log []dispute.Entry) string {
	type standing struct {
		Status    string `json:"status"`
		Outcome   string `json:"outcome"`
		Effective bool   `json:"effective"`
	}
	b := dispute.NewBook()
	signals, disputes, standings, accounts := map[string]bool{}, map[string]standing{}, map[string]int64{},
		map[string][]accrual.Entry{}
	var parties, published, opened []string
	for _, e := range log {
		s := must(b.Add(e))
		for _, a := range s.Accounts {
			accounts[a.Agent.String()] = append(accounts[a.Agent.String()], a.Entry)
		}
		switch {
		case e.Signal != nil:
			published = append(published, e.Signal.SignalID)
		case e.Opened != nil:
			parties, opened = append(parties, e.Opened.Challenger, e.Opened.Target), append(opened, e.Opened.DisputeID)
		}
	}
	for _, id := range published {
		if s, ok := b.Signal(id); ok {
			signals[id] = s.Final
		}
	}
	for _, id := range opened {
		if d, ok := b.Dispute(id); ok {
			disputes[id] = standing{d.Status, d.Resolved.Outcome, d.Effective}
		}
	}
	for _, id := range parties {
		standings[id] = b.Standing(id, time.Unix(0, 0), time.Unix(0, 0))
	}
	return canonicalOf(
		map[string]any{"log": b.Log(), "signals": signals, "disputes": disputes, "standings": standings,
			"accounts": accounts})
}

var (
	workerA1 = strings.Repeat("a", 43) + ":agent:worker-1"
	workerA2 = strings.Repeat("a", 43) + ":agent:worker-2"
	workerB  = strings.Repeat("b", 43) + ":agent:worker-1"
	workerC  = strings.Repeat("c", 43) + ":agent:worker-1"
	away     = evidence.DIDKey(newKey("agent elsewhere").public())
)

func receiptHash(n int) string { return evidence.HashBytes(fmt.Append(nil, "receipt ", n)) }

func (d deployment) arbiter() role {
	return role{evidence.PurposeArbiter, "arbiter", "posting-api", newKey("arbiter-key:v1")}
}

func (d deployment) disputesVectors() disputesFile {
	d, r := d.appraiser()
	arbiter := d.arbiter()
	decided := arbiter.expected(300)
	decided.Custody, decided.RequireNonExportable = nil, false
	f := disputesFile{
		About: "Disputes: see docs/vectors.md, Disputes.", At: at, Skew: 2, Trust: d.trusting(r),
		Expected: map[string]expectedJSON{
			dispute.ResolutionKind.Typ: r.expected(300),
			dispute.DecisionKind.Typ:   decided,
		},
		Windows:  map[string]int64{"short": 24 * 3600, "long": 72 * 3600},
		Deadline: 72 * 3600,
	}
	f.Trust.Roots = append(f.Trust.Roots,
		rootJSON{KeyID: arbiter.key.kid, Purpose: arbiter.purpose, Public: evidence.EncodePublicKey(arbiter.key.public())})
	f.Vectors = append(append(append(disputeDocuments(), disputeLogs()...), trialVectors()...), d.disputeTokens()...)
	return f
}

func disputeDocuments() (out []disputeVector) {
	whole := map[string]map[string]any{
		"signal": {"signal_id": "sig-1", "agent_id": workerA1, "statement": "Tomorrow it will rain – <b>here</b>.",
			"horizon": "long", "timestamp": at,
			"rests_on": map[string]any{"receipts": []string{receiptHash(2), receiptHash(1)}}},
		"contract": {"challenge_id": "c-1", "original_signal_id": "sig-1", "challenger_agent_id": workerB,
			"counter_claim": "It will not.", "reasoning_trace": "The glass rises.", "timestamp": at,
			"challenge_type": "timing", "target_receipts": []string{receiptHash(1)}},
		"challenge": {"challenger_id": workerB, "target_id": workerA1, "target_receipts": []string{receiptHash(1)},
			"challenge_type": "general", "evidence": "It answers at noon only.", "timestamp": at},
	}
	change := func(kind, what, member string, value any, verdict string) {
		members := maps.Clone(whole[kind])
		if members[member] = value; value == nil {
			delete(members, member)
		}
		v := disputeVector{Name: kind + ": " + what, Kind: kind, Document: string(compact(members)), Verdict: verdict}
		if d, err := parsed(kind, []byte(v.Document)); err == nil {
			v.Hash = must(dispute.HashOf(d))
		}
		out = append(out, v)
	}
	const no = "statement_malformed"
	for _, kind := range []string{"signal", "contract", "challenge"} {
		change(kind, "whole", "signature", nil, "ok")
		change(kind, "a signature is no part of the hash", "signature", "x", "ok")
		change(kind, "an empty signature", "signature", "", no)
		change(kind, "an unknown member", "surprise", 1, no)
		change(kind, "a time of 0", "timestamp", 0, no)
		change(kind, "a time as text", "timestamp", "2026-11-20T12:00:00Z", no)
	}
	change("signal", "rests on nothing", "rests_on", nil, "ok")
	change("signal", "rests on a record", "rests_on", map[string]any{"record": receiptHash(1)}, "ok")
	change("signal", "rests on both", "rests_on",
		map[string]any{"record": receiptHash(1), "receipts": []string{receiptHash(1)}}, no)
	change("signal", "a receipt twice", "rests_on", map[string]any{"receipts": []string{receiptHash(1), receiptHash(1)}},
		no)
	change("signal", "another horizon", "horizon", "medium", no)
	change("signal", "no horizon", "horizon", nil, no)
	change("signal", "the longest statement", "statement", strings.Repeat("é", 4096), "ok")
	change("signal", "a longer statement", "statement", strings.Repeat("é", 4096+1), no)
	change("signal", "an id with a space", "signal_id", "a b", no)
	change("signal", "of an agent elsewhere", "agent_id", away, "ok")
	change("signal", "of no agent", "agent_id", "agent:worker-1", no)
	change("contract", "without a type", "challenge_type", nil, "ok")
	change("contract", "without receipts", "target_receipts", nil, "ok")
	change("contract", "no reasoning", "reasoning_trace", nil, no)
	change("contract", "another type", "challenge_type", "other", no)
	change("challenge", "without evidence", "evidence", nil, "ok")
	change("challenge", "without a time", "timestamp", nil, "ok")
	change("challenge", "without receipts", "target_receipts", nil, no)
	change("challenge", "no receipts", "target_receipts", []string{}, no)
	k := newKey("agent elsewhere")
	s := dispute.Signal{SignalID: "sig-2", AgentID: away, Statement: "I act alone.", Horizon: "short", Timestamp: at}
	own := func(what string, s dispute.Signal, verdict string) {
		out = append(out,
			disputeVector{Name: "own signature: " + what, Kind: "signal", Document: string(compact(s)), Own: true,
				Hash: must(dispute.HashOf(s)), Verdict: verdict})
	}
	s.Signature = b64.EncodeToString(ed25519.Sign(k.private, must(dispute.Unsigned(s))))
	own("valid", s, "ok")
	other := s
	other.Statement = "I do not."
	own("of another text", other, "statement_signature")
	other = s
	other.AgentID = workerA1
	own("of an agent of an owner", other, "statement_signature")
	c := dispute.Challenge{ChallengerID: away, TargetID: workerA1, TargetReceipts: []string{receiptHash(1)},
		ChallengeType: "timing"}
	c.Signature = b64.EncodeToString(ed25519.Sign(k.private, must(dispute.Unsigned(c))))
	out = append(out,
		disputeVector{Name: "own signature: without a time", Kind: "challenge", Document: string(compact(c)), Own: true,
			Hash: must(dispute.HashOf(c)), Verdict: "statement_malformed"})
	return out
}
