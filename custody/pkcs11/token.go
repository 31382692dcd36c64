//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/miekg/pkcs11"

	"github.com/actionproof/mediator/custody"
)

// Token is an open token. It is safe for concurrent use.
type Token struct {
	o        Options
	module   *pkcs11.Ctx
	slot     uint
	hardware bool // the slot says hardware

	// sessions holds the places for sessions. A place is empty (0) before its first use and after a failure, which may
	// have broken the session.
	sessions chan pkcs11.SessionHandle

	mu   sync.Mutex // guards keys
	keys []string   // names of opened keys
}

// Open loads the module and finds the token. Call it once for each module.
func Open(o Options) (*Token, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	module := pkcs11.New(o.Module)
	if module == nil {
		return nil, fmt.Errorf("pkcs11: the module %s cannot be loaded", o.Module)
	}
	if err := module.Initialize(); err != nil {
		module.Destroy()
		return nil, fmt.Errorf("pkcs11: the module %s cannot be initialised: %w", o.Module, err)
	}
	t := &Token{o: o, module: module, sessions: make(chan pkcs11.SessionHandle, o.Sessions)}
	for range o.Sessions {
		t.sessions <- 0
	}
	err := t.find()
	if err == nil {
		err = t.use(context.Background(), func(pkcs11.SessionHandle) error { return nil }) // tries the PIN once
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// find looks for the token's slot.
func (t *Token) find() error {
	slots, err := t.module.GetSlotList(true)
	if err != nil {
		return fmt.Errorf("pkcs11: the slots of %s cannot be listed: %w", t.o.Module, err)
	}
	var found []uint
	for _, slot := range slots {
		if info, err := t.module.GetTokenInfo(slot); err == nil && info.Label == t.o.Token {
			found = append(found, slot)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("pkcs11: %d tokens of %s bear the label %q, not one", len(found), t.o.Module, t.o.Token)
	}
	t.slot = found[0]
	info, err := t.module.GetSlotInfo(t.slot)
	t.hardware = err == nil && info.Flags&pkcs11.CKF_HW_SLOT != 0
	return nil
}

// Close ends every session and unloads the module.
func (t *Token) Close() error {
	err := t.module.Finalize()
	t.module.Destroy()
	return err
}

// use runs do with its own session. A module knows no context: after ctx ends, the call goes on and its result is
// dropped. It keeps its place, which bounds the calls that hang.
func (t *Token) use(ctx context.Context, do func(pkcs11.SessionHandle) error) error {
	var session pkcs11.SessionHandle
	select {
	case session = <-t.sessions:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		var err error
		if session == 0 {
			session, err = t.login()
		}
		if err == nil {
			err = do(session)
		}
		if err != nil && session != 0 {
			_ = t.module.CloseSession(session)
			session = 0
		}
		t.sessions <- session
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// login opens a session for private keys.
func (t *Token) login() (pkcs11.SessionHandle, error) {
	session, err := t.module.OpenSession(t.slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return 0, err
	}
	err = t.module.Login(session, pkcs11.CKU_USER, t.o.PIN)
	if err != nil && !errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_ALREADY_LOGGED_IN)) {
		_ = t.module.CloseSession(session)
		return 0, fmt.Errorf("log in to token %s: %w", t.o.Token, err)
	}
	return session, nil
}

// Key opens a key with at least one version.
func (t *Token) Key(name string) (custody.Key, error) {
	k := &key{token: t, name: name}
	if err := k.refresh(context.Background()); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, name)
	return k, nil
}

// others returns the sorted labels of private keys that this process did not open.
func (t *Token) others(ctx context.Context) ([]string, error) {
	var labels []string
	err := t.use(ctx, func(s pkcs11.SessionHandle) error {
		handles, err := t.objects(s, pkcs11.CKO_PRIVATE_KEY)
		for _, h := range handles {
			var label [][]byte
			if label, err = t.attributes(s, h, pkcs11.CKA_LABEL); err != nil {
				break
			}
			labels = append(labels, string(label[0]))
		}
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	labels = slices.DeleteFunc(labels, func(label string) bool { return slices.Contains(t.keys, label) })
	slices.Sort(labels)
	return slices.Compact(labels), err
}

// maxObjects bounds the versions of a key, and the keys of a token.
const maxObjects = 256

// objects returns the objects of a class with these attributes.
func (t *Token) objects(session pkcs11.SessionHandle, class uint, also ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle,
	error) {
	err := t.module.FindObjectsInit(session,
		append([]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class)}, also...))
	if err != nil {
		return nil, err
	}
	handles, more, err := t.module.FindObjects(session, maxObjects+1)
	if err := errors.Join(err, t.module.FindObjectsFinal(session)); err != nil {
		return nil, err
	}
	if more || len(handles) > maxObjects {
		return nil, fmt.Errorf("token %s holds more than the %d objects of a kind, or versions of a key, that are looked at",
			t.o.Token, maxObjects)
	}
	return handles, nil
}

// attributes reads attributes of an object, in the given order.
func (t *Token) attributes(session pkcs11.SessionHandle, object pkcs11.ObjectHandle, types ...uint) ([][]byte, error) {
	ask := make([]*pkcs11.Attribute, len(types))
	for i, a := range types {
		ask[i] = pkcs11.NewAttribute(a, nil)
	}
	got, err := t.module.GetAttributeValue(session, object, ask)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(types))
	for _, a := range got {
		if i := slices.Index(types, a.Type); i >= 0 {
			out[i] = a.Value
		}
	}
	return out, nil
}
