//go:build cgo

package pkcs11

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/miekg/pkcs11"
)

func (t *Token) Generate(name string, number int, extractable bool, params []byte) error {
	s, err := t.module.OpenSession(t.slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() { _ = t.module.CloseSession(s) }()
	id := big.NewInt(int64(number)).Bytes()
	attr := pkcs11.NewAttribute
	_, _, err = t.module.GenerateKeyPair(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(ckmEdwardsKeyPairGen, nil)},
		[]*pkcs11.Attribute{attr(pkcs11.CKA_TOKEN, true), attr(pkcs11.CKA_LABEL, name), attr(pkcs11.CKA_ID, id),
			attr(pkcs11.CKA_EC_PARAMS, params)},
		[]*pkcs11.Attribute{attr(pkcs11.CKA_TOKEN, true), attr(pkcs11.CKA_LABEL, name), attr(pkcs11.CKA_ID, id),
			attr(pkcs11.CKA_PRIVATE, true),
			attr(pkcs11.CKA_SENSITIVE, true), attr(pkcs11.CKA_EXTRACTABLE, extractable), attr(pkcs11.CKA_SIGN, true)})
	return err
}

// PublishAs publishes one key's public key as another's.
func (t *Token) PublishAs(other, name string) error {
	s, err := t.module.OpenSession(t.slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() { _ = t.module.CloseSession(s) }()
	label := func(name string) *pkcs11.Attribute { return pkcs11.NewAttribute(pkcs11.CKA_LABEL, name) }
	old, err := t.objects(s, pkcs11.CKO_PUBLIC_KEY, label(name))
	if err != nil {
		return err
	}
	found, err := t.objects(s, pkcs11.CKO_PUBLIC_KEY, label(other))
	if err != nil {
		return err
	}
	if len(old) != 1 || len(found) != 1 {
		return fmt.Errorf("%d and %d public keys", len(old), len(found))
	}
	return errors.Join(t.module.DestroyObject(s, old[0]),
		t.module.SetAttributeValue(s, found[0], []*pkcs11.Attribute{label(name)}))
}

func (t *Token) Delete(name string, number int) error {
	s, err := t.module.OpenSession(t.slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() { _ = t.module.CloseSession(s) }()
	if err := t.module.FindObjectsInit(s,
		[]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_LABEL, name),
			pkcs11.NewAttribute(pkcs11.CKA_ID, big.NewInt(int64(number)).Bytes())}); err != nil {
		return err
	}
	objects, _, err := t.module.FindObjects(s, 100)
	_ = t.module.FindObjectsFinal(s)
	for _, o := range objects {
		if err := t.module.DestroyObject(s, o); err != nil {
			return err
		}
	}
	return err
}

// Logout ends the login behind every session, like a token that was reset.
func (t *Token) Logout() error { return t.module.CloseAllSessions(t.slot) }

var (
	Ed25519Params = ed25519Params[0]
	Ed448Params   = append([]byte{0x13, 10}, "edwards448"...)
)

const ckmEdwardsKeyPairGen = 0x1055
