package vectors_test

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// The form of the files; docs/vectors.md explains each member.
type (
	// rootJSON is one pinned root key.
	rootJSON struct {
		KeyID       string `json:"kid"`
		Purpose     string `json:"purpose"`
		Public      string `json:"x"`
		PostQuantum string `json:"pub,omitempty"` // ML-DSA-65
	}

	// expectedJSON is what a verifier demands of an artifact.
	expectedJSON struct {
		Issuers              []string `json:"issuers"`
		Audiences            []string `json:"audiences"`
		KeyIDs               []string `json:"keyIds"`
		MaxAge               int64    `json:"maxAge"` // seconds
		Custody              []string `json:"custody,omitempty"`
		RequireNonExportable bool     `json:"requireNonExportable,omitempty"`
		RequirePostQuantum   bool     `json:"requirePostQuantum,omitempty"`
		Secrets              []string `json:"secrets,omitempty"` // base64url
	}

	// signersJSON is what a verifier demands of custody certificates.
	signersJSON struct {
		expectedJSON
		DenyAgentAccessible bool `json:"denyAgentAccessible"`
		DenyUserAccessible  bool `json:"denyUserAccessible"`
		// MaxRevocationAge demands a revocation list that is no older, in seconds.
		MaxRevocationAge int64 `json:"maxRevocationAge,omitempty"`
	}

	trustJSON struct {
		Roots        []rootJSON  `json:"roots"`
		Certificates []string    `json:"certificates"`
		Revocations  string      `json:"revocations,omitempty"`
		Signers      signersJSON `json:"signers"`
	}
)

func (e expectedJSON) expected() evidence.Expected {
	out := evidence.Expected{
		Issuers: e.Issuers, Audiences: e.Audiences, KeyIDs: e.KeyIDs, MaxAge: time.Duration(e.MaxAge) * time.Second,
		Custody: e.Custody, RequireNonExportable: e.RequireNonExportable, RequirePostQuantum: e.RequirePostQuantum,
	}
	for _, text := range e.Secrets {
		out.Secrets = append(out.Secrets, must(evidence.NewSecret(must(b64.DecodeString(text)))))
	}
	return out
}

// trust builds what the verifier believes; it may be refused.
func (t trustJSON) trust() (*evidence.Trust, error) {
	roots, policy, err := t.parts()
	if err != nil {
		return nil, err
	}
	b := evidence.Bundle{Certificates: append([]string{}, t.Certificates...), Revocations: t.Revocations}
	if b, err = evidence.ParseBundle(compact(b)); err != nil { // its bounds are a reader's
		return nil, err
	}
	return evidence.NewTrust(roots, b, policy)
}

// parts are the roots, and what is demanded of custody certificates.
func (t trustJSON) parts() (roots []evidence.Root, policy evidence.SignerPolicy, err error) {
	for _, r := range t.Roots {
		root := evidence.Root{KeyID: r.KeyID, Purpose: r.Purpose, Public: ed25519.PublicKey(must(b64.DecodeString(r.Public)))}
		if r.PostQuantum != "" {
			k, err := evidence.AKP{Algorithm: "ML-DSA-65", KeyID: r.KeyID, KeyType: "AKP", Public: r.PostQuantum}.Key()
			if err != nil {
				return nil, policy, err
			}
			root.PostQuantum = k
		}
		roots = append(roots, root)
	}
	return roots, evidence.SignerPolicy{
		Expected: t.Signers.expected(), DenyAgentAccessible: t.Signers.DenyAgentAccessible, DenyUserAccessible: t.Signers.DenyUserAccessible,
		MaxRevocationAge: time.Duration(t.Signers.MaxRevocationAge) * time.Second,
	}, nil
}

// verifier is a verifier whose clock stands still.
func (t trustJSON) verifier(now int64) (*evidence.Verifier, error) {
	trust, err := t.trust()
	if err != nil {
		return nil, err
	}
	return evidence.NewVerifier(trust, evidence.VerifierOptions{Now: func() time.Time { return time.Unix(now, 0) }})
}

// codeOf is the verdict of a verification: "ok", or the code of the refusal.
func codeOf(err error) string {
	var coded interface{ Code() string }
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &coded):
		return coded.Code()
	default:
		return "error: " + err.Error()
	}
}

// oneAVector writes a file with each vector on a line of its own, so that a difference shows which one it is.
func oneAVector(head any, vectors []any) []byte {
	raw := must(json.MarshalIndent(head, "", "  "))
	out := append(raw[:len(raw)-2], ",\n  \"vectors\": [\n"...)
	for i, v := range vectors {
		out = append(append(out, "    "...), compact(v)...)
		if i < len(vectors)-1 {
			out = append(out, ',')
		}
		out = append(out, '\n')
	}
	return append(out, "  ]\n}\n"...)
}
