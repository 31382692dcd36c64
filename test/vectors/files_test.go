package vectors_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
)

// The form of the files; docs/vectors.md explains each member.
type (
	rootJSON struct {
		KeyID       string `json:"kid"`
		Purpose     string `json:"purpose"`
		Public      string `json:"x"`
		PostQuantum string `json:"pub,omitempty"` // ML-DSA-65
	}

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

	signersJSON struct {
		expectedJSON
		DenyAgentAccessible bool  `json:"denyAgentAccessible"`
		DenyUserAccessible  bool  `json:"denyUserAccessible"`
		MaxRevocationAge    int64 `json:"maxRevocationAge,omitempty"`
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

func (t trustJSON) trust() (*evidence.Trust, error) {
	roots, policy, err := t.parts()
	if err != nil {
		return nil, err
	}
	b := evidence.Bundle{Certificates: append([]string{}, t.Certificates...), Revocations: t.Revocations}
	if b, err = evidence.ParseBundle(compact(b)); err != nil {
		return nil, err
	}
	return evidence.NewTrust(roots, b, policy)
}

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
		Expected: t.Signers.expected(), DenyAgentAccessible: t.Signers.DenyAgentAccessible,
		DenyUserAccessible: t.Signers.DenyUserAccessible,
		MaxRevocationAge:   time.Duration(t.Signers.MaxRevocationAge) * time.Second,
	}, nil
}

func (t trustJSON) verifier(now int64) (*evidence.Verifier, error) {
	trust, err := t.trust()
	if err != nil {
		return nil, err
	}
	return evidence.NewVerifier(trust, evidence.VerifierOptions{Now: func() time.Time { return time.Unix(now, 0) }})
}

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

// marshal writes a file with one vector a line.
func marshal[F any](f F) []byte {
	member := reflect.ValueOf(&f).Elem().FieldByName("Vectors")
	vectors := reflect.ValueOf(member.Interface())
	member.SetZero()
	raw := must(json.MarshalIndent(f, "", "  "))
	out := append(raw[:len(raw)-2], ",\n  \"vectors\": [\n"...)
	for i := range vectors.Len() {
		out = append(append(out, "    "...), compact(vectors.Index(i).Interface())...)
		if i < vectors.Len()-1 {
			out = append(out, ',')
		}
		out = append(out, '\n')
	}
	return append(out, "  ]\n}\n"...)
}
