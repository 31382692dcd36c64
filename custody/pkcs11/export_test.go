//go:build cgo

package pkcs11

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/miekg/pkcs11"
)

func (t *Token) write(do func(s pkcs11.SessionHandle) error) error {
	s, err := t.module.OpenSession(t.slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() { _ = t.module.CloseSession(s) }()
	return do(s)
}

var attr = pkcs11.NewAttribute

func label(name string) *pkcs11.Attribute { return attr(pkcs11.CKA_LABEL, name) }

func id(number int) *pkcs11.Attribute { return attr(pkcs11.CKA_ID, big.NewInt(int64(number)).Bytes()) }

func (t *Token) Generate(name string, number int, extractable bool, params []byte) error {
	return t.write(func(s pkcs11.SessionHandle) error {
		both := []*pkcs11.Attribute{attr(pkcs11.CKA_TOKEN, true), label(name), id(number)}
		_, _, err := t.module.GenerateKeyPair(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(ckmEdwardsKeyPairGen, nil)},
			slices.Concat(both, []*pkcs11.Attribute{attr(pkcs11.CKA_EC_PARAMS, params)}),
			slices.Concat(both, []*pkcs11.Attribute{attr(pkcs11.CKA_PRIVATE, true), attr(pkcs11.CKA_SENSITIVE, true),
				attr(pkcs11.CKA_EXTRACTABLE, extractable), attr(pkcs11.CKA_SIGN, true)}))
		return err
	})
}

func (t *Token) PublishAs(other, name string) error {
	return t.write(func(s pkcs11.SessionHandle) error {
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
	})
}

func (t *Token) Delete(name string, number int) error {
	return t.write(func(s pkcs11.SessionHandle) error {
		var err error
		for _, class := range []uint{pkcs11.CKO_PUBLIC_KEY, pkcs11.CKO_PRIVATE_KEY} {
			objects, bad := t.objects(s, class, label(name), id(number))
			err = errors.Join(err, bad)
			for _, o := range objects {
				err = errors.Join(err, t.module.DestroyObject(s, o))
			}
		}
		return err
	})
}

func (t *Token) Logout() error { return t.module.CloseAllSessions(t.slot) }

var (
	Ed25519Params = ed25519Params[0]
	Ed448Params   = append([]byte{0x13, 10}, "edwards448"...)
)

const ckmEdwardsKeyPairGen = 0x1055
