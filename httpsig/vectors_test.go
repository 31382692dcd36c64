package httpsig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/dunglas/httpsfv"
)

// These are the vectors of RFC 9421, appendix B and section 2.4.

const digest = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"

func bytesOf(text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return raw
}

const rsaKey = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----
`

const clientCert = ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMM" +
	"EkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYI" +
	"KoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAw" +
	"CQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIw" +
	"HQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8T" +
	"AiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:"

var testKey = ed25519.NewKeyFromSeed(bytesOf("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"))

func message(method, target string, fields ...string) *Message {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	m := &Message{Method: method, Target: u, Header: make(http.Header)}
	for i := 0; i < len(fields); i += 2 {
		m.Header.Add(fields[i], fields[i+1])
	}
	return m
}

// testRequest is the request of B.2.
func testRequest() *Message {
	return message("POST", "https://example.com/foo?param=Value&Pet=dog", "Date", "Tue, 20 Apr 2021 02:07:55 GMT",
		"Content-Type", "application/json", "Content-Digest", digest, "Content-Length", "18")
}

func testResponse(status int, length, digest string) *Message {
	m := message("", "", "Date", "Tue, 20 Apr 2021 02:07:56 GMT", "Content-Type", "application/json",
		"Content-Digest", digest, "Content-Length", length)
	return &Message{Status: status, Header: m.Header, Request: testRequest()}
}

var vectorTime = time.Unix(1618884473, 0)

func want(components ...string) Expected {
	return Expected{Components: components, Keys: Keys{"test-key-ed25519": testKey.Public().(ed25519.PublicKey)},
		Now: vectorTime, MaxAge: time.Minute, Skew: time.Second}
}

func TestEd25519Vectors(t *testing.T) {
	b26 := testRequest()
	check.Must(t, Sign(b26, "sig-b26",
		[]string{"date", "@method", "@path", "@authority", "content-type", "content-length"},
		Params{Created: vectorTime, KeyID: "test-key-ed25519"}, testKey))
	if got := b26.Header.Get("Signature-Input"); got != `sig-b26=("date" "@method" "@path" "@authority" `+
		`"content-type" "content-length");created=1618884473;keyid="test-key-ed25519"` {
		t.Error(got)
	}
	if got := b26.Header.Get("Signature"); got != "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9"+
		"EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:" {
		t.Error(got)
	}
	_, err := Verify(b26, want("@method", "date"))
	check.Must(t, err)

	for _, tt := range []struct { // B.4
		name, method, target string
		fields               []string
		ok                   bool
	}{
		{"as sent", "GET", "https://example.org/demo?name1=Value1&Name2=value2",
			[]string{"Accept", "application/json", "Accept", "*/*"}, true},
		{"combined, with more fields", "GET", "https://EXAMPLE.org:443/demo?other=query",
			[]string{"Accept", " application/json, */* ", "Accept-Language", "en"}, true},
		{"in another order", "GET", "https://example.org/demo", []string{"Accept", "*/*", "Accept", "application/json"},
			false},
		{"another method", "POST", "https://example.org/demo", []string{"Accept", "application/json, */*"}, false},
		{"another authority", "GET", "https://example.com/demo", []string{"Accept", "application/json, */*"}, false},
	} {
		m := message(tt.method, tt.target, append(tt.fields, "Signature-Input",
			`transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"`, "Signature",
			"transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:")...)
		if _, err := Verify(m, want("accept")); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestBaseVectors verifies signatures with other algorithms over our bases.
func TestBaseVectors(t *testing.T) {
	secret, _ := base64.StdEncoding.DecodeString(
		"uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==")
	point := slices.Concat([]byte{4}, bytesOf("qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA"),
		bytesOf("Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"))
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	check.Must(t, err)
	hmacSHA256 := func(base string, signature []byte) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(base))
		return hmac.Equal(mac.Sum(nil), signature)
	}
	p256 := func(base string, s []byte) bool {
		sum := sha256.Sum256([]byte(base))
		return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(s[:32]),
			new(big.Int).SetBytes(s[32:]))
	}
	block, _ := pem.Decode([]byte(rsaKey))
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	check.Must(t, err)
	pss := func(base string, signature []byte) bool {
		sum := sha512.Sum512([]byte(base))
		return rsa.VerifyPSS(parsed.(*rsa.PublicKey), crypto.SHA512, sum[:], signature, nil) == nil
	}
	for section, tt := range map[string]struct {
		of               *Message
		input, signature string
		verify           func(string, []byte) bool
	}{
		"B.2.1": {testRequest(), `();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"`,
			"d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA" +
				"7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O" +
				"6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8I" +
				"U1bLhdxO5Nyt8C8ssinQ98Xw9Q==", pss},
		"B.2.3": {testRequest(), `("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" ` +
			`"content-length");created=1618884473;keyid="test-key-rsa-pss"`,
			"bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38" +
				"K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o" +
				"/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyo" +
				"EZAFL2FUo5fTIztsDZKEgM4cUA==", pss},
		"B.3": {message("POST", "https://service.internal.example/foo?param=Value&Pet=dog", "Client-Cert", clientCert),
			`("@path" "@query" "@method" "@authority" "client-cert");created=1618884473;keyid="test-key-ecc-p256"`,
			"xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah4JHRwMLOgmizw==", p256},
		"B.2.5": {testRequest(), `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`,
			"pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=", hmacSHA256},
		"B.2.4": {testResponse(200, "23",
			"sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:"),
			`("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256"`,
			"wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==", p256},
		"2.4": {testResponse(503, "62",
			"sha-512=:0Y6iCBzGg5rZtoXS95Ijz03mslf6KAMCloESHObfwnHJDbkkWWQz6PhhU9kxsTbARtY2PTBOzq24uJFpHsMuAg==:"),
			`("@status" "content-digest" "content-type" "@authority";req "@method";req "@path";req "content-digest";req)` +
				`;created=1618884479;keyid="test-key-ecc-p256"`,
			"dMT/A/76ehrdBTD/2Xx8QuKV6FoyzEP/I9hdzKN8LQJLNgzU4W767HK05rx1i8meNQQgQPgQp8wq2ive3tV5Ag==", p256},
	} {
		list, err := httpsfv.UnmarshalList([]string{tt.input})
		check.Must(t, err)
		base, err := tt.of.base(list[0].(httpsfv.InnerList))
		signature, _ := base64.StdEncoding.DecodeString(tt.signature)
		if err != nil || !tt.verify(base, signature) {
			t.Errorf("%s: %v\n%s", section, err, base)
		}
	}
}

// TestNotCovered: the components of B.2.2 and of section 2.1 that are refused.
func TestNotCovered(t *testing.T) {
	for _, component := range []string{`@query-param;name="Pet"`, "@request-target", "date;bs", "date;tr", "date;sf",
		"date;key=1", `@path;key="a"`, `date;key="a"`, `example-dict;key="none"`, `no-field;key="a"`, "Date"} {
		m := testRequest()
		m.Header.Set("Example-Dict", "a=1")
		if value, err := m.Value(component); err == nil {
			t.Errorf("%s is %q", component, value)
		}
	}
}

// TestMembers: the example of section 2.1.2.
func TestMembers(t *testing.T) {
	m := message("GET", "https://example.com/", "Example-Dict", " a=1,    b=2;x=1;y=2,   c=(a   b   c), d")
	for component, want := range map[string]string{`example-dict;key="a"`: "1", `example-dict;key="b"`: "2;x=1;y=2",
		`example-dict;key="c"`: "(a b c)", `example-dict;key="d"`: "?1"} {
		if got, err := m.Value(component); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", component, got, want, err)
		}
	}
	check.Must(t, Sign(m, "sig", []string{`example-dict;key="b"`}, Params{Created: vectorTime}, testKey))
	w := want(`example-dict;key="b"`)
	w.Keys = Keys{KeyID(testKey.Public().(ed25519.PublicKey)): testKey.Public().(ed25519.PublicKey)}
	s, err := Verify(m, w)
	check.Must(t, err)
	if values, _, err := Open(s.Base, s.Signature, s.Key); err != nil || values[`example-dict;key="b"`] != "2;x=1;y=2" {
		t.Errorf("%v %v", values, err)
	}
	m.Header.Set("Example-Dict", "b=2;x=1, a=1")
	if _, err := Verify(m, w); err == nil {
		t.Error("a changed member was verified")
	}
}

func TestKeyID(t *testing.T) { // RFC 8037, A.3
	if got := KeyID(bytesOf("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")); got !=
		"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Error(got)
	}
}
