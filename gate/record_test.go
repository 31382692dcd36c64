package gate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func recorded(t testing.TB, k *gatetest.Kit, r gate.AdmitRequest) ledger.Record {
	t.Helper()
	e, b := r.Envelope, r.Binding
	event, _ := evidence.UnverifiedClaims(evidence.TriggerReceiptKind(), e.TriggerReceipt)
	session, _ := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), e.SessionReceipt)
	work, _ := evidence.UnverifiedClaims(evidence.ChallengeTokenKind(), e.ChallengeToken)
	method, path, _ := strings.Cut(b.Resource, " ")
	p := ledger.Record{Manifest: k.Strict.ManifestHash, Event: event.EventID, Session: session.SessionID,
		BindingHash: work.BindingHash, Method: method, Path: path, Subject: b.Subject, Action: b.Action, Resource: b.Resource,
		ContentHash: b.ContentHash, Artifacts: []ledger.Artifact{
			{Name: "challenge", Token: e.ChallengeToken}, {Name: "originProof", Token: e.OriginProof},
			{Name: "triggerReceipt", Token: e.TriggerReceipt},
			{Name: "policyDecision", Token: e.PolicyDecision}, {Name: "grant", Token: e.Grant},
			{Name: "runtimeAttestation", Token: e.Attestation},
			{Name: "sessionReceipt", Token: e.SessionReceipt}, {Name: "deploymentCertificate", Token: e.DeploymentCertificate},
		}}
	var used gatetest.Used
	if a, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume); err == nil {
		p.CapabilityID = a.CapabilityID
		p.Artifacts = append(p.Artifacts, ledger.Artifact{Name: "capability", Token: a.Capability},
			ledger.Artifact{Name: "requestProof", Token: k.Proof(t, a.Capability, gatetest.Token)})
	}
	return p
}

func put(p *ledger.Record, name, token string) {
	i := slices.IndexFunc(p.Artifacts, func(a ledger.Artifact) bool { return a.Name == name })
	p.Artifacts[i].Token = token
}

func judge(t *testing.T, k *gatetest.Kit, p ledger.Record) string {
	t.Helper()
	checks, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, p)
	failed := slices.IndexFunc(checks, func(c ledger.Check) bool { return !c.OK })
	all := 8
	if slices.ContainsFunc(p.Artifacts, func(a ledger.Artifact) bool { return a.Name == "agentStatement" }) {
		all++
	}
	switch {
	case whole && (failed >= 0 || len(checks) != all):
		t.Errorf("a record is whole with the checks %+v", checks)
	case whole:
		return ""
	case failed < 0:
		t.Fatalf("no check of %+v failed, and the record is not whole", checks)
	case checks[failed].Code != "artifact_missing" && failed != len(checks)-1:
		t.Errorf("a record is read on after a refusal: %+v", checks)
	}
	return checks[failed].Code
}

// TestVerifyRecordRefuses: what refuses a chain also refuses its record, except the work.
func TestVerifyRecordRefuses(t *testing.T) {
	t.Parallel()
	for _, r := range slices.Concat(deploymentRows(), triggerRows(), decisionRows(), grantRows(), runtimeRows(),
		sessionRows(), artifactRows(), keyRows(), revokedRows()) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t, twoRuntimes)
			valid, changed := recorded(t, k, k.Chain(t)), r.make(t, k)
			want := r.code
			switch {
			case want == "trust_stale":
				want = "key_unknown"
			case r.name == "origin proof missing": // the trigger receipt rests on it
				want = "artifacts_mismatch"
			}
			if code := judge(t, k, recorded(t, k, changed)); code != want {
				t.Errorf("got %q, want %q", code, want)
			}
			k.Verifier.SetTrust(k.Trust(t))
			if code := judge(t, k, valid); code != "" {
				t.Errorf("the valid record is refused: %s", code)
			}
		})
	}
}

func TestVerifyRecord(t *testing.T) {
	t.Parallel()
	type post = ledger.Record
	field := func(change func(p *post)) func(*testing.T, *gatetest.Kit, *post, post) {
		return func(_ *testing.T, _ *gatetest.Kit, p *post, _ post) { change(p) }
	}
	// token puts another post's n-th artifact in the place of one.
	token := func(name string, n int) func(*testing.T, *gatetest.Kit, *post, post) {
		return func(_ *testing.T, _ *gatetest.Kit, p *post, o post) { put(p, name, o.Artifacts[n].Token) }
	}
	for _, tt := range []struct {
		name, code string
		change     func(t *testing.T, k *gatetest.Kit, p *post, o post)
	}{
		{"as it is", "", field(func(*post) {})},
		{"of nothing", "artifact_missing", field(func(p *post) { *p = post{} })},
		{"without the last step", "artifact_missing", field(func(p *post) { put(p, "requestProof", "") })},
		{"of other content", "challenge_refused", field(func(p *post) { p.ContentHash = other })},
		{"of another subject", "challenge_refused", field(func(p *post) { p.Subject = "agent:other" })},
		{"of another resource", "challenge_refused", field(func(p *post) { p.Resource += "/1" })},
		{"of a call without content", "artifact_malformed", field(func(p *post) { p.ContentHash = "" })},
		{"of another event", "record_mismatch", field(func(p *post) { p.Event = "evt_2" })},
		{"of another session", "record_mismatch", field(func(p *post) { p.Session = "ses_2" })},
		{"of no session", "record_mismatch", field(func(p *post) { p.Session = "" })},
		{"of another binding", "record_mismatch", field(func(p *post) { p.BindingHash = other })},
		{"of another method", "record_mismatch", field(func(p *post) { p.Method = "PUT" })},
		{"of another path", "record_mismatch", field(func(p *post) { p.Path += "/1" })},
		{"of another message", "record_mismatch", field(func(p *post) { p.Message = "mutation addComment" })},
		{"of another capability", "artifacts_mismatch", field(func(p *post) { p.CapabilityID = "another" })},
		{"of another manifest", "record_mismatch", field(func(p *post) { p.Manifest = other })},
		{"of no manifest that it names", "", field(func(p *post) { p.Manifest = "" })},
		{"with another post's capability", "record_mismatch", token("capability", 8)},
		{"with a token for a capability", "artifact_malformed", token("capability", 1)},
		{"without its capability", "", field(func(p *post) { put(p, "capability", "") })},
		{"with a token for a challenge", "artifact_malformed", token("challenge", 1)},
		{"with a challenge that is bound to nothing", "challenge_refused",
			func(t *testing.T, k *gatetest.Kit, p *post, _ post) {
				unbound, err := k.Challenges.Create(t.Context(), evidence.Binding{})
				check.Must(t, err)
				put(p, "challenge", unbound.Token)
			}},
		{"with another post's challenge", "artifacts_mismatch", func(_ *testing.T, _ *gatetest.Kit, p *post, o post) {
			put(p, "challenge", o.Artifacts[0].Token)
			p.BindingHash = o.BindingHash
		}},
		{"with another post's grant", "artifacts_mismatch", token("grant", 4)},
		{"with another post's request proof", "artifacts_mismatch", token("requestProof", 9)},
		{"with a request proof for other content", "artifacts_mismatch",
			func(t *testing.T, k *gatetest.Kit, p *post, _ post) {
				put(p, "requestProof",
					gatetest.Resign(t, k, evidence.RequestProofKind(), p.Artifacts[9].Token, "contentHash", other))
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t)
			p := recorded(t, k, k.Chain(t))
			tt.change(t, k, &p, recorded(t, k, k.Chain(t)))
			if code := judge(t, k, p); code != tt.code {
				t.Errorf("got %q, want %q", code, tt.code)
			}
		})
	}
}

func TestVerifyRecordOfAPart(t *testing.T) {
	t.Parallel()
	for _, missing := range []map[string]int{
		// the policy denied the last one
		{"sessionReceipt": 5}, {"deploymentCertificate": 6}, {"policyDecision": 2, "grant": 3, "requestProof": 7},
		{"runtimeAttestation": 4, "sessionReceipt": 5, "requestProof": 7},
		{"policyDecision": 2, "grant": 3, "runtimeAttestation": 4, "sessionReceipt": 5, "deploymentCertificate": 6,
			"requestProof": 7},
	} {
		k := gatetest.New(t)
		p := recorded(t, k, k.Chain(t))
		want := make([]string, 8) // the codes of the checks
		for name, check := range missing {
			put(&p, name, "")
			want[check] = "artifact_missing"
		}
		checks, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, p)
		var got []string
		for _, c := range checks {
			got = append(got, c.Code)
		}
		if whole || !slices.Equal(got, want) {
			t.Errorf("without %v: whole is %t, the codes are %q", missing, whole, got)
		}
	}
}

func TestRecordedReputation(t *testing.T) {
	t.Parallel()
	type agent = accrual.Agent
	own := func(a agent) agent { return a }
	for name, c := range map[string]struct {
		agent                 func(agent) agent
		named, added, swapped bool // in the decision, to the record, there with another one
		by                    time.Duration
		code                  string
	}{
		"as it is":          {own, true, true, false, 0, ""},
		"without the token": {own, true, false, false, 0, "artifact_missing"},
		"with another":      {own, true, true, true, 0, "artifacts_mismatch"},
		"with one that the decision does not name": {own, false, true, false, 0, "artifacts_mismatch"},
		"with neither": {own, false, false, false, 0, ""},
		"of another agent": {func(a agent) agent { return agent{Owner: a.Owner, Subject: "agent:worker-2"} },
			true, true, false, 0, "reputation_mismatch"},
		"of another owner": {func(a agent) agent { return agent{Owner: strings.Repeat("x", 43), Subject: a.Subject} },
			true, true, false, 0, "reputation_mismatch"},
		"that had ended": {own, true, true, false, accrual.Lifetime + time.Minute, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t, gatetest.Autonomous)
			token, plan := k.Reputation(t, c.agent(k.Agent(t)), 30, 80), gatetest.Plan{}
			if c.named {
				plan = gatetest.Claim(evidence.PurposePolicyDecision, "reputationHash", evidence.HashToken(token))
			}
			k.Clock.Advance(c.by)
			p := k.PostOf(t, plan)
			switch {
			case c.swapped:
				token = k.Reputation(t, k.Agent(t), 30, 80)
			case !c.added:
				token = ""
			}
			p.Artifacts = append(p.Artifacts, ledger.Artifact{Name: "reputation", Token: token})
			if code := judge(t, k, p); code != c.code {
				t.Errorf("got %q, want %q", code, c.code)
			}
		})
	}
}

func TestRecordedStatement(t *testing.T) {
	t.Parallel()
	type statement = interaction.Statement
	for name, c := range map[string]struct {
		change func(*statement)
		code   string
	}{
		"as it is":         {func(*statement) {}, ""},
		"another document": {func(s *statement) { s.StatementHash = other }, "statement_mismatch"},
		"another post":     {func(s *statement) { s.BindingHash = other }, "statement_mismatch"},
		"another agent":    {func(s *statement) { s.Agent = "agent:worker-2" }, "statement_mismatch"},
		"another owner":    {func(s *statement) { s.Owner = strings.Repeat("x", 43) }, "statement_mismatch"},
		"another session":  {func(s *statement) { s.Session = "ses_2" }, "statement_mismatch"},
		"another event":    {func(s *statement) { s.EventID = "evt_2" }, "statement_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := gatetest.New(t, gatetest.Speaking)
			p := k.PostOf(t, gatetest.Plan{})
			s := statement{
				Owner: k.Owner(t), Agent: p.Subject, Session: p.Session, EventID: p.Event, Kind: interaction.StatesSignal,
				StatementHash: p.ContentHash, BindingHash: p.BindingHash, Probabilistic: true,
			}
			c.change(&s)
			made, err := k.Speak(t).Issue(t.Context(), s)
			check.Must(t, err)
			p.Artifacts = append(p.Artifacts, ledger.Artifact{Name: "agentStatement", Token: made.Token()})
			if code := judge(t, k, p); code != c.code {
				t.Errorf("got %q, want %q", code, c.code)
			}
			k.Strict.Statement = evidence.Expected{}
			if code := judge(t, k, p); code != "not_allowed" {
				t.Errorf("under a manifest that allows none: %q", code)
			}
		})
	}
}
