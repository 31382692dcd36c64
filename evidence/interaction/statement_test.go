package interaction_test

import (
	"strings"
	"testing"

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

// TestStatements: what the golden vectors do not show.
func TestStatements(t *testing.T) {
	s := aStatement()
	token, err := signAny(t, "agent-statement-key", interaction.StatementKind, s)
	check.Must(t, err)
	if got, err := evidence.UnverifiedClaims(interaction.StatementKind, token); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = evidence.UnverifiedClaims(interaction.Kind, token)
	wantCode(t, err, "artifact_malformed")
	for _, edit := range []string{`keyCustody ""`, `kind ""`} {
		_, err := signAny(t, "agent-statement-key", interaction.StatementKind, edited(t, aStatement(), edit))
		wantCode(t, err, "artifact_malformed")
	}
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
			wantCode(t, s.States(tt.kind, tt.hash), tt.code)
		})
	}
}
