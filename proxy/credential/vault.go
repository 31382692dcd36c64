package credential

import (
	"context"

	"github.com/actionproof/mediator/custody/vault"
)

// Fields name the fields of a secret in Vault.
type Fields struct {
	Secret  string // required
	ID      string // empty if the value has none
	Session string // empty if the value has none; the secret may lack the field
}

type inVault struct {
	secret *vault.Secret
	fields Fields
}

// Vault is the source of a secret in Vault. Rules can share one.
func Vault(secret *vault.Secret, fields Fields) Source { return inVault{secret, fields} }

func (s inVault) Current(ctx context.Context) (Value, error) {
	got, err := s.secret.Read(ctx)
	if err != nil {
		return Value{}, err
	}
	v := Value{Version: got.Version, Read: got.Read, End: got.End}
	if v.Secret, err = got.Field(s.fields.Secret); err != nil {
		return Value{}, err
	}
	if s.fields.ID != "" {
		if v.ID, err = got.Field(s.fields.ID); err != nil {
			return Value{}, err
		}
	}
	if s.fields.Session != "" && got.Has(s.fields.Session) {
		v.Session, err = got.Field(s.fields.Session)
	}
	return v, err
}

func (s inVault) Refused(v Value) { s.secret.Refused(s.fields.Secret, v.Secret) }
