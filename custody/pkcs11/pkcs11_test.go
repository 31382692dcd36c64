//go:build cgo

package pkcs11_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/custody/pkcs11"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/custodytest"
	"github.com/actionproof/mediator/test/full"
)

const (
	module = "/usr/lib/softhsm/libsofthsm2.so"
	pin    = "5678"
)

// SoftHSM keeps its tokens in a folder of this test. A process loads a module once.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "open" {
		for range 15 {
			token, err := pkcs11.Open(pkcs11.Options{Module: module, Token: os.Args[2], PIN: pin, Now: time.Now})
			if err == nil {
				err = token.Close()
			}
			if err != nil {
				panic(err)
			}
		}
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "softhsm-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		conf := filepath.Join(dir, "softhsm2.conf")
		if err := os.WriteFile(conf,
			[]byte("directories.tokendir = "+dir+"\nobjectstore.backend = file\nlog.level = ERROR\nslots.removable = false\n"),
			0o600); err != nil {
			panic(err)
		}
		os.Setenv("SOFTHSM2_CONF", conf)
		return m.Run()
	}())
}

var tokens atomic.Int64

func initToken(t *testing.T) string {
	t.Helper()
	label := fmt.Sprintf("token-%d", tokens.Add(1))
	out, err := exec.Command("softhsm2-util", "--init-token", "--free", "--label", label, "--so-pin", "12345678",
		"--pin", pin).CombinedOutput()
	if err != nil {
		t.Fatalf("softhsm2-util: %v %s (run make setup)", err, out)
	}
	return label
}

func newToken(t *testing.T, change func(*pkcs11.Options)) *pkcs11.Token {
	t.Helper()
	full.Only(t, "SoftHSM")
	o := pkcs11.Options{Module: module, Token: initToken(t), PIN: pin, Now: time.Now, Refresh: time.Nanosecond}
	if change != nil {
		change(&o)
	}
	token, err := pkcs11.Open(o)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, token.Close()) })
	return token
}

type rotating struct {
	custody.Key
	rotate func() error
}

func (r rotating) Rotate() error { return r.rotate() }

func generate(t *testing.T, token *pkcs11.Token, name string, number int) {
	t.Helper()
	check.Must(t, token.Generate(name, number, false, pkcs11.Ed25519Params))
}

func open(t *testing.T, token *pkcs11.Token, name string) custody.Key {
	t.Helper()
	k, err := token.Key(name)
	check.Must(t, err)
	return k
}

type clock struct {
	start time.Time
	ahead atomic.Int64
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) Now() time.Time { return c.start.Add(time.Duration(c.ahead.Load())) }

func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

func TestToken(t *testing.T) {
	custodytest.Run(t, func(t *testing.T, name string) custodytest.Rotator {
		now := newClock()
		token := newToken(t, func(o *pkcs11.Options) { o.Now, o.Refresh = now.Now, time.Minute })
		generate(t, token, name, 1)
		next := make(chan int, 1)
		next <- 2
		return rotating{open(t, token, name), func() error {
			n := <-next
			defer func() { next <- n + 1 }()
			// SoftHSM sometimes fails to write while others read, and may leave half of a key pair.
			err := token.Generate(name, n, false, pkcs11.Ed25519Params)
			for try := 0; err != nil && try < 20; try++ {
				_ = token.Delete(name, n)
				err = token.Generate(name, n, false, pkcs11.Ed25519Params)
			}
			now.forward(time.Minute)
			return err
		}}
	})
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    pkcs11.Options
		want string
	}{
		{"nothing", pkcs11.Options{}, "needs its module"},
		{"no such module", pkcs11.Options{Module: "/nonexistent.so", Token: "t", PIN: pin, Now: time.Now},
			"cannot be loaded"},
		{"no such token", pkcs11.Options{Module: module, Token: "no such token", PIN: pin, Now: time.Now}, "no token has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := pkcs11.Open(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a wrong PIN", func(t *testing.T) {
		const wrong = "wrong-and-secret"
		_, err := pkcs11.Open(pkcs11.Options{Module: module, Token: initToken(t), PIN: wrong, Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), "PIN") || strings.Contains(err.Error(), wrong) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOpenBesideLogins(t *testing.T) {
	full.Only(t, "SoftHSM")
	label := initToken(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if out, err := exec.Command("/proc/self/exe", "open", label).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		})
	}
	all.Wait()
}

func TestKeyRefuses(t *testing.T) {
	token := newToken(t, nil)
	generate(t, token, "zero", 0)
	check.Must(t, token.Generate("curve", 1, false, pkcs11.Ed448Params))
	generate(t, token, "twice", 1)
	generate(t, token, "twice", 1)
	for name, want := range map[string]string{"absent": "holds no Ed25519 key", "zero": "is not a version",
		"curve": "is not an Ed25519 key", "twice": "occurs twice"} {
		if _, err := token.Key(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestWhatTheTokenSays(t *testing.T) {
	for _, tt := range []struct {
		name        string
		extractable bool
		change      func(*pkcs11.Options)
		want        custody.Properties
		look        look.Result
	}{
		{"a token in software", false, nil,
			custody.Properties{Custody: custody.ExternalMediator, Observed: []string{"keyExportable"}}, look.Holds},
		{"one that is declared to be hardware", false, func(o *pkcs11.Options) { o.Hardware = true },
			custody.Properties{Custody: custody.HardwareBacked, Observed: []string{"keyExportable"}}, look.Holds},
		{"a key that can be extracted", true, nil,
			custody.Properties{Custody: custody.ExternalMediator, Exportable: true,
				Observed: []string{"keyExportable"}},
			look.Contradicts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token := newToken(t, tt.change)
			check.Must(t, token.Generate("k", 1, tt.extractable, pkcs11.Ed25519Params))
			k := open(t, token, "k")
			if got := k.Properties(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %+v", got)
			}
			if looks := k.Observe(t.Context(), 0); looks[0].Name != look.Custody || looks[0].Result != tt.look {
				t.Errorf("got %+v", looks)
			}
		})
	}
}

func TestWhatThePINOpens(t *testing.T) {
	token := newToken(t, nil)
	generate(t, token, "k", 1)
	generate(t, token, "of another process", 1)
	apart := func(k custody.Key) look.Observation {
		for _, l := range k.Observe(t.Context(), 0) {
			if l.Name == look.Apart {
				return l
			}
		}
		return look.Observation{}
	}
	k := open(t, token, "k")
	if l := apart(k); l.Result != look.NotObserved || !strings.Contains(l.Seen, "of another process") {
		t.Errorf("got %+v", l)
	}
	open(t, token, "of another process")
	if l := apart(k); l.Result != look.Holds {
		t.Errorf("with all of them opened: %+v", l)
	}
}

func TestAVersionIsDeleted(t *testing.T) {
	token := newToken(t, nil)
	generate(t, token, "k", 1)
	generate(t, token, "k", 300)
	k := open(t, token, "k")
	old, err := k.Current(t.Context())
	if err != nil || old.KeyID() != "k:v300" {
		t.Fatalf("%s, %v", old.KeyID(), err)
	}
	check.Must(t, token.Delete("k", 300))
	versions, err := k.Versions(t.Context())
	if err != nil || len(versions) != 1 || versions[0].KeyID() != "k:v1" {
		t.Errorf("%v, %v", versions, err)
	}
	wantUnavailable(t, old)
	if _, err := versions[0].Sign(t.Context(), []byte("m")); err != nil {
		t.Errorf("the other version does not sign: %v", err)
	}
}

func TestTheLastVersionIsDeleted(t *testing.T) {
	now := newClock()
	token := newToken(t, func(o *pkcs11.Options) { o.Now, o.Refresh = now.Now, time.Minute })
	generate(t, token, "k", 1)
	k := open(t, token, "k")
	check.Must(t, token.Delete("k", 1))
	now.forward(time.Minute)
	for range 2 {
		if v, err := k.Versions(t.Context()); err == nil || !strings.Contains(err.Error(), "holds no Ed25519 key") {
			t.Errorf("%v, %v", v, err)
		}
		if v, err := k.Current(t.Context()); err == nil {
			t.Errorf("%v", v)
		}
	}
	generate(t, token, "k", 2)
	if v, err := k.Current(t.Context()); err != nil || v.KeyID() != "k:v2" {
		t.Errorf("%v, %v", v, err)
	}
}

// TestTheTokenCannotBeRead: the last reading counts for three times Refresh.
func TestTheTokenCannotBeRead(t *testing.T) {
	now := newClock()
	token := newToken(t, func(o *pkcs11.Options) { o.Now, o.Refresh = now.Now, time.Minute })
	generate(t, token, "k", 1)
	k := open(t, token, "k")
	generate(t, token, "k", 0)
	now.forward(3*time.Minute - 1)
	if v, err := k.Versions(t.Context()); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	now.forward(1)
	if v, err := k.Versions(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a version") {
		t.Errorf("%v, %v", v, err)
	}
	check.Must(t, token.Delete("k", 0))
	if v, err := k.Versions(t.Context()); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
}

func wantUnavailable(t *testing.T, v custody.Version) {
	t.Helper()
	_, err := v.Sign(t.Context(), []byte("m"))
	check.WantCode(t, err, "custody_unavailable")
}

func TestAWrongSignature(t *testing.T) {
	token := newToken(t, nil)
	generate(t, token, "k", 1)
	generate(t, token, "other", 1)
	check.Must(t, token.PublishAs("other", "k"))
	v, err := open(t, token, "k").Current(t.Context())
	check.Must(t, err)
	wantUnavailable(t, v)
}

// TestSessionsAreLost: at most one failure for each session.
func TestSessionsAreLost(t *testing.T) {
	token := newToken(t, func(o *pkcs11.Options) { o.Sessions, o.Refresh = 1, time.Hour })
	generate(t, token, "k", 1)
	k := open(t, token, "k")
	v, err := k.Current(t.Context())
	check.Must(t, err)
	check.Must(t, token.Logout())
	wantUnavailable(t, v)
	if _, err := v.Sign(t.Context(), []byte("m")); err != nil {
		t.Errorf("it does not recover: %v", err)
	}
}
