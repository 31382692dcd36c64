package httpsig

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/dunglas/httpsfv"
)

// Sign adds a signature over components to m's header, under a label that m does not have yet. key must be an Ed25519
// key. Without p.KeyID its [KeyID] is used.
func Sign(m *Message, label string, components []string, p Params, key crypto.Signer) error {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("httpsig: the key is not an Ed25519 key")
	}
	if p.KeyID == "" {
		p.KeyID = KeyID(public)
	}
	covered, err := p.list(components)
	if err != nil {
		return err
	}
	base, err := m.base(covered)
	if err != nil {
		return err
	}
	given, err := dictionary(m.Header, "Signature-Input")
	if err != nil {
		return err
	}
	if _, ok := given.Get(label); ok {
		return fmt.Errorf("httpsig: the message has a signature %.80q already", label)
	}
	signature, err := key.Sign(nil, []byte(base), crypto.Hash(0))
	if err != nil {
		return fmt.Errorf("httpsig: sign: %w", err)
	}
	input, value := httpsfv.NewDictionary(), httpsfv.NewDictionary()
	input.Add(label, covered)
	value.Add(label, httpsfv.NewItem(signature))
	for name, d := range map[string]*httpsfv.Dictionary{"Signature-Input": input, "Signature": value} {
		text, err := httpsfv.Marshal(d)
		if err != nil {
			return fmt.Errorf("httpsig: %w", err)
		}
		m.Header.Add(name, text)
	}
	return nil
}
