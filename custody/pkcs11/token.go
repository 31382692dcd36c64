//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/miekg/pkcs11"

	"github.com/actionproof/mediator/custody"
)

// Token is an open token. It is safe for concurrent use.
type Token struct {
	o        Options
	module   *pkcs11.Ctx
	slot     uint
	hardware bool // the slot says hardware

	// sessions holds idle sessions. A zero handle is a session to open, at first and after a failure.
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
	t := &Token{o: o, module: module, sessions: make(chan pkcs11.SessionHandle, o.Sessions)}
	for range o.Sessions {
		t.sessions <- 0
	}
	err := t.start()
	for try := 1; mayPass(err) && try < tries; try++ {
		time.Sleep(pause)
		err = errors.Join(module.Finalize(), t.start())
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// SoftHSM rewrites a token's file at each login. Another process that starts meanwhile may see no token, or one
// without a PIN, or fail to write the file.
const (
	tries = 20
	pause = 100 * time.Millisecond
)

var errNoToken = errors.New("pkcs11: no token has the label")

func mayPass(err error) bool {
	return errors.Is(err, errNoToken) || errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_PIN_NOT_INITIALIZED)) ||
		errors.Is(err, pkcs11.Error(pkcs11.CKR_GENERAL_ERROR))
}

func (t *Token) start() error {
	if err := t.module.Initialize(); err != nil {
		return fmt.Errorf("pkcs11: the module %s cannot be initialised: %w", t.o.Module, err)
	}
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
	if len(found) == 0 {
		return fmt.Errorf("%w %q in %s", errNoToken, t.o.Token, t.o.Module)
	}
	if len(found) > 1 {
		return fmt.Errorf("pkcs11: %d tokens of %s have the label %q; exactly one must", len(found), t.o.Module,
			t.o.Token)
	}
	t.slot = found[0]
	info, err := t.module.GetSlotInfo(t.slot)
	t.hardware = err == nil && info.Flags&pkcs11.CKF_HW_SLOT != 0
	return t.use(context.Background(), func(pkcs11.SessionHandle) error { return nil })
}

// Close ends every session and unloads the module.
func (t *Token) Close() error {
	err := t.module.Finalize()
	t.module.Destroy()
	return err
}

// use runs do with a session. A module knows no context: after ctx ends, the call goes on without its caller. It keeps
// the session, which bounds the calls that hang.
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
	if _, err := k.all(context.Background()); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, name)
	return k, nil
}

// Public returns the versions of any key in the token, oldest first, and what the token says of it.
func (t *Token) Public(ctx context.Context, name string) ([]custody.Version, custody.Properties, error) {
	k := &key{token: t, name: name}
	versions, err := k.Versions(ctx)
	return versions, k.Properties(), err
}

// others returns the labels of private keys that this process has not opened, sorted.
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
		return nil, fmt.Errorf("token %s holds more than %d objects of a kind, or versions of a key", t.o.Token,
			maxObjects)
	}
	return handles, nil
}

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
