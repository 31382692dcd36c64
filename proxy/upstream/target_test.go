package upstream

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestParseConnect(t *testing.T) {
	for in, want := range map[string]Target{
		"api.example.com:443":          {"https", "api.example.com", 443},
		"API.Example.COM.:8443":        {"https", "api.example.com", 8443},
		"bücher.example:443":           {"https", "xn--bcher-kva.example", 443},
		"BÜCHER.example:443":           {"https", "xn--bcher-kva.example", 443},
		"xn--bcher-kva.example:443":    {"https", "xn--bcher-kva.example", 443},
		"a。example:443":                {"https", "a.example", 443}, // U+3002 is a full stop to IDNA
		"my_service:80":                {"https", "my_service", 80},
		"1e100.net:443":                {"https", "1e100.net", 443},
		"127.0.0.1:443":                {"https", "127.0.0.1", 443},
		"127.0.0.1.:443":               {"https", "127.0.0.1", 443},
		"[2001:DB8:0:0:0:0:0:1]:443":   {"https", "2001:db8::1", 443},
		"localhost:1":                  {"https", "localhost", 1},
		strings.Repeat("a", 63) + ":1": {"https", strings.Repeat("a", 63), 1},
	} {
		got, err := ParseConnect(in)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", in, got, err, want)
		}
		if again, err := ParseConnect(got.Address()); err != nil || again != got {
			t.Errorf("%q: %q reads as %v, %v", in, got.Address(), again, err)
		}
	}
	for name, in := range map[string]string{
		"empty":                  "",
		"no host":                ":443",
		"no port":                "api.example.com",
		"empty port":             "api.example.com:",
		"port 0":                 "api.example.com:0",
		"port too high":          "api.example.com:65536",
		"port with sign":         "api.example.com:+443",
		"port with zero":         "api.example.com:0443",
		"service name":           "api.example.com:https",
		"userinfo":               "ok.example@127.0.0.1:18443",
		"path":                   "api.example.com:443/info",
		"path in host":           "api.example.com/x:443",
		"query":                  "api.example.com?x:443",
		"fragment":               "api.example.com#x:443",
		"backslash":              `api.example.com\@b:443`,
		"escape":                 "%61pi.example.com:443",
		"NUL":                    "api\x00.example.com:443",
		"space":                  "api .example.com:443",
		"scheme":                 "https://api.example.com:443",
		"two dots at the end":    "api.example.com..:443",
		"empty label":            "api..example.com:443",
		"leading hyphen":         "-api.example.com:443",
		"long label":             strings.Repeat("a", 64) + ":443",
		"long name":              strings.Repeat("a.", 127) + "aa:443",
		"broken UTF-8":           "a\xbc.example:443",
		"broken punycode":        "xn--a.example:443",
		"wildcard":               "*.example.com:443",
		"octal IPv4":             "0177.0.0.1:443",
		"decimal IPv4":           "2130706433:443",
		"short IPv4":             "127.1:443",
		"hexadecimal IPv4":       "0x7f.0.0.1:443",
		"short hexadecimal IPv4": "0x7f.1:443",
		"whole hexadecimal IPv4": "0x7f000001:443",
		"bare 0x":                "127.0.0.0x:443",
		"hexadecimal at the end": "127.0.0.0x1:443",
		"IPv4 too high":          "256.0.0.1:443",
		"five parts":             "1.2.3.4.5:443",
		"full-width octal IPv4":  "０１７７.０.０.１:443",
		"unbracketed IPv6":       "2001:db8::1:443",
		"IPv4-mapped IPv6":       "[::ffff:127.0.0.1]:443",
		"IPv6 zone":              "[fe80::1%eth0]:443",
		"bracketed name":         "[api.example.com]:443",
		"bracketed IPv4":         "[127.0.0.1]:443",
		"open bracket":           "[::1:443",
		"text after bracket":     "[::1]x:443",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConnect(in)
			check.WantCode(t, err, "request_malformed")
		})
	}
}

func TestTargetText(t *testing.T) {
	for _, test := range []struct {
		target                     Target
		authority, address, origin string
	}{
		{Target{"https", "a.example", 443}, "a.example", "a.example:443", "https://a.example"},
		{Target{"http", "a.example", 443}, "a.example:443", "a.example:443", "http://a.example:443"},
		{Target{"http", "::1", 80}, "[::1]", "[::1]:80", "http://[::1]"},
		{Target{"https", "::1", 80}, "[::1]:80", "[::1]:80", "https://[::1]:80"},
	} {
		if a, d, o := test.target.Authority(), test.target.Address(),
			test.target.String(); a != test.authority || d != test.address || o != test.origin {
			t.Errorf("got %s, %s, %s; want %s, %s, %s", a, d, o, test.authority, test.address, test.origin)
		}
	}
}

// Accepted targets are in normal form and read back as themselves.
func FuzzParseConnect(f *testing.F) {
	for _, s := range []string{"api.example.com:443", "[::1]:1", "bücher.example:443", "ok.example@127.0.0.1:18443",
		"0x7f.1:80", "h:p/info?", "a..b:1", "XN--A:1", "0\xbc:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseConnect(s)
		if err != nil {
			check.WantCode(t, err, "request_malformed")
			return
		}
		if strings.Trim(target.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" || target.Port == 0 ||
			len(target.Host) > 253 {
			t.Fatalf("%q was accepted as %+v", s, target)
		}
		if again, err := ParseConnect(target.Address()); err != nil || again != target {
			t.Fatalf("%q reads as %v, and that as %v, %v", s, target, again, err)
		}
	})
}

func BenchmarkParseConnect(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseConnect("api.example.com:443"); err != nil {
			b.Fatal(err)
		}
	}
}
