package httpsig

import (
	"crypto/ed25519"
	"crypto/sha256"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
)

const tag = "test"

var components = []string{"@status", "content-digest", "@method;req", "@target-uri;req", "content-digest;req"}

func signed(t testing.TB) (*Message, Expected) {
	m := testResponse(201, "0", ContentDigest(sha256.Sum256(nil)))
	check.Must(t, Sign(m, "sig", components, Params{Created: vectorTime, Tag: tag}, testKey))
	w := want(components...)
	public := testKey.Public().(ed25519.PublicKey)
	w.Tag, w.Keys = tag, Keys{KeyID(public): public}
	return m, w
}

func TestVerify(t *testing.T) {
	input := func(old, now string) func(*Message, *Expected) {
		return func(m *Message, _ *Expected) {
			m.Header.Set("Signature-Input", strings.Replace(m.Header.Get("Signature-Input"), old, now, 1))
		}
	}
	for name, change := range map[string]func(*Message, *Expected){
		"":                    func(*Message, *Expected) {},
		"status":              func(m *Message, _ *Expected) { m.Status = 200 },
		"digest":              func(m *Message, _ *Expected) { m.Header.Set("Content-Digest", digest) },
		"no digest":           func(m *Message, _ *Expected) { m.Header.Del("Content-Digest") },
		"method":              func(m *Message, _ *Expected) { m.Request.Method = "PUT" },
		"query":               func(m *Message, _ *Expected) { m.Request.Target.RawQuery = "Pet=cat" },
		"no request":          func(m *Message, _ *Expected) { m.Request = nil },
		"line break":          func(m *Message, _ *Expected) { m.Request.Method = "POST\n" },
		"no signature":        func(m *Message, _ *Expected) { m.Header.Del("Signature") },
		"other tag":           input("test", "other"),
		"other key":           input(`keyid="`, `keyid="A`),
		"parameter":           input(";created", ";more;created"),
		"component parameter": input(`"@status"`, `"@status";sf`),
		"covered twice":       input(`"@status"`, `"@status" "@status"`),
		"not covered":         input(`"@status" `, ``),
		"algorithm":           input(";created", `;alg="hmac-sha256";created`),
		"two":                 input("sig", `two=();tag="test", sig`),
		"long":                input("sig", "sig="+strings.Repeat("a", maxField)+", sig"),
		"old":                 func(_ *Message, w *Expected) { w.Now = w.Now.Add(2 * time.Minute) },
		"future":              func(_ *Message, w *Expected) { w.Now = w.Now.Add(-2 * time.Second) },
		"nothing expected":    func(_ *Message, w *Expected) { w.Components = nil },
		"no keys":             func(_ *Message, w *Expected) { w.Keys = nil },
	} {
		m, w := signed(t)
		change(m, &w)
		s, err := Verify(m, w)
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (s.Params.Tag != tag || !s.Params.Created.Equal(vectorTime)) {
			t.Errorf("%+v", s)
		}
	}
	m, _ := signed(t)
	if Sign(m, "sig", components, Params{}, testKey) == nil {
		t.Error("a second signature replaced the first")
	}
}

// TestOpen: a base says what was signed, without the message.
func TestOpen(t *testing.T) {
	m, w := signed(t)
	s, err := Verify(m, w)
	check.Must(t, err)
	got, p, err := Open(s.Base, s.Signature, s.Key)
	wantValues := map[string]string{}
	for _, c := range components {
		wantValues[c], _ = m.Value(c)
	}
	if err != nil || !maps.Equal(got, wantValues) || p != s.Params {
		t.Errorf("%v %v %v", got, p, err)
	}
	if _, _, err := Open(strings.Replace(s.Base, "201", "200", 1), s.Signature, s.Key); err == nil {
		t.Error("a changed base was opened")
	}
}

func TestContentDigest(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	for value, ok := range map[string]bool{
		ContentDigest(sum): true, digest + ", " + ContentDigest(sum): true,
		"": false, digest: false, "sha-256=:AAAA:": false, "sha-256=AAAA": false, "sha-256=(1)": false, "=": false,
	} {
		if got, err := ReadContentDigest(http.Header{"Content-Digest": {value}}); (err == nil && got == sum) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// FuzzVerify: whatever the fields, nothing panics, and no other fields than the signer's are believed.
func FuzzVerify(f *testing.F) {
	m, _ := signed(f)
	f.Add(m.Header.Get("Signature-Input"), m.Header.Get("Signature"))
	f.Add(`sig=("@status";req "x");created=1;tag=test`, `sig=1`)
	f.Fuzz(func(t *testing.T, input, signature string) {
		m, w := signed(t)
		m.Header.Set("Signature-Input", input)
		m.Header.Set("Signature", signature)
		s, err := Verify(m, w)
		if err != nil {
			return
		}
		if values, _, err := Open(s.Base, s.Signature, s.Key); err != nil || values["@status"] != "201" {
			t.Errorf("%v %v", values, err)
		}
	})
}

// FuzzOpen signs any base: it must not panic, and what it says must be in it.
func FuzzOpen(f *testing.F) {
	m, w := signed(f)
	s, _ := Verify(m, w)
	f.Add(s.Base)
	f.Add("\"@signature-params\": ()")
	f.Fuzz(func(t *testing.T, base string) {
		values, _, err := Open(base, ed25519.Sign(testKey, []byte(base)), testKey.Public().(ed25519.PublicKey))
		if err == nil && len(values) != strings.Count(base, "\n") {
			t.Errorf("%v", values)
		}
	})
}
