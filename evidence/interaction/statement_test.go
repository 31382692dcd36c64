package interaction_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type statement = interaction.Statement

func aStatement() statement {
	return statement{
		Registered: evidence.Registered{Audience: "posting-api", Expires: noon.Unix() + 600, IssuedAt: noon.Unix(),
			Issuer: "sidecar", ID: "id"},
		KeyClaims: evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
		Agent:     "agent:worker-1", Owner: strings.Repeat("o", 43), Session: "ses_1", EventID: "evt_1",
		Kind: interaction.StatesSignal, StatementHash: hash, BindingHash: hash, Probabilistic: true,
	}
}

func TestStatements(t *testing.T) {
	const bad = "artifact_malformed"
	for name, tt := range map[string]struct {
		spoil func(*statement)
		code  string // empty: accepted
	}{
		"one that is whole": {func(*statement) {}, ""},
		"of a contract":     {func(s *statement) { s.Kind = interaction.StatesContract }, ""},
		"of a challenge":    {func(s *statement) { s.Kind = interaction.StatesChallenge }, ""},
		"names of most bytes": {func(s *statement) {
			s.Agent, s.EventID, s.Session = strings.Repeat("a", 256), strings.Repeat("e", 256), strings.Repeat("s", 128)
		}, ""},
		"too long a life":       {func(s *statement) { s.Expires++ }, "artifact_malformed"},
		"too short a life":      {func(s *statement) { s.Expires-- }, bad},
		"no custody":            {func(s *statement) { s.KeyCustody = "" }, bad},
		"no agent":              {func(s *statement) { s.Agent = "" }, bad},
		"a long agent":          {func(s *statement) { s.Agent = strings.Repeat("a", 257) }, bad},
		"no owner":              {func(s *statement) { s.Owner = "" }, bad},
		"no session":            {func(s *statement) { s.Session = "" }, bad},
		"a long session":        {func(s *statement) { s.Session = strings.Repeat("s", 129) }, bad},
		"no event":              {func(s *statement) { s.EventID = "" }, bad},
		"a long event":          {func(s *statement) { s.EventID = strings.Repeat("e", 257) }, bad},
		"no kind":               {func(s *statement) { s.Kind = "" }, bad},
		"another kind":          {func(s *statement) { s.Kind = "Signal" }, bad},
		"no document":           {func(s *statement) { s.StatementHash = "" }, bad},
		"a document in capital": {func(s *statement) { s.StatementHash = strings.ToUpper(hash) }, bad},
		"no post":               {func(s *statement) { s.BindingHash = "" }, bad},
		"a proof":               {func(s *statement) { s.Probabilistic = false }, bad},
		"a proof of no human":   {func(s *statement) { s.NonHumanIdentityProven = true }, bad},
	} {
		t.Run(name, func(t *testing.T) {
			s := aStatement()
			tt.spoil(&s)
			token, err := signAny(t, "agent-statement-key", interaction.StatementKind, s)
			if codeOf(err) != tt.code {
				t.Fatalf("%v, want the code %q", err, tt.code)
			}
			if err != nil {
				return
			}
			if got, err := evidence.UnverifiedClaims(interaction.StatementKind, token); err != nil || got != s {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := evidence.UnverifiedClaims(interaction.Kind, token); codeOf(err) != "artifact_malformed" {
				t.Errorf("read as a receipt: %v", err)
			}
		})
	}
}

func TestOpenStatement(t *testing.T) {
	k := gatetest.New(t)
	speaker := k.Speak(t)
	s := aStatement()
	made, err := speaker.Issue(t.Context(), s)
	check.Must(t, err)
	want := evidence.Expected{Issuers: []string{speaker.Name()}, Audiences: []string{made.Claims().Audience},
		KeyIDs: []string{"agent-statement-key"}, MaxAge: interaction.Lifetime}
	first := k.Certificates[evidence.PurposeStatement]
	k.Rotate(t, evidence.PurposeStatement)
	k.Certificates[evidence.PurposeStatement] = k.Vouch(t, k.Key(t, evidence.PurposeStatement), evidence.PurposeStatement,
		speaker.Name())
	k.Clock.Advance(48 * time.Hour)
	opened, err := interaction.OpenStatement(k.Past(t, first), want, made.Token(), k.Clock.Now())
	if err != nil || opened.Claims().StatementHash != hash {
		t.Errorf("two days and a key later: %+v, %v", opened.Claims(), err)
	}
	_, err = interaction.OpenStatement(k.Past(t, first), want, made.Token(), k.Clock.Now().Add(-50*time.Hour))
	wantCode(t, err, "clock_skew")
	_, err = interaction.OpenStatement(k.Past(t), want, made.Token(), k.Clock.Now())
	wantCode(t, err, "key_retired")
	forged := gatetest.StrangerKey(t, made.KeyID())
	token, err := evidence.Sign(t.Context(), forged, interaction.StatementKind, made.Claims())
	check.Must(t, err)
	_, err = interaction.OpenStatement(k.Past(t, first), want, token, k.Clock.Now())
	wantCode(t, err, "signature_invalid")
	_, err = interaction.OpenStatement(k.Past(t, first), want, "no token", k.Clock.Now())
	wantCode(t, err, "artifact_malformed")
	k.Revoke(t, evidence.Revocation{Kind: "key", ID: made.KeyID()})
	_, err = interaction.OpenStatement(k.Past(t, first), want, made.Token(), k.Clock.Now())
	wantCode(t, err, "revoked")
}

// TestReceiptKeySignsNoStatement: nor the other way round.
func TestReceiptKeySignsNoStatement(t *testing.T) {
	k := gatetest.New(t)
	k.Observe(t)
	s := aStatement()
	s.IssuedAt, s.Expires = k.Clock.Now().Unix(), k.Clock.Now().Unix()+600
	token, err := evidence.Sign(t.Context(), k.Key(t, evidence.PurposeInteraction), interaction.StatementKind, s)
	check.Must(t, err)
	_, err = evidence.Open(k.Verifier, interaction.StatementKind, token, k.Strict.Interaction)
	wantCode(t, err, "key_purpose")
}

func TestStatementIsForOneDocument(t *testing.T) {
	s := aStatement()
	other := evidence.HashBytes([]byte("other"))
	for name, tt := range map[string]struct{ kind, hash, code string }{
		"its own":          {interaction.StatesSignal, hash, ""},
		"another kind":     {interaction.StatesContract, hash, "statement_mismatch"},
		"another document": {interaction.StatesSignal, other, "statement_mismatch"},
		"none":             {interaction.StatesSignal, "", "statement_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.States(tt.kind, tt.hash); codeOf(err) != tt.code {
				t.Errorf("%v, want the code %q", err, tt.code)
			}
		})
	}
}
