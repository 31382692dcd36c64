package echo

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// MinLength is the least length of a secret, in bytes. Shorter texts occur in answers by chance.
const MinLength = 8

// Secret finds one credential in a server's answers. It is safe for concurrent use.
type Secret struct {
	forms  [][]byte
	window int                 // length of the shortest form
	drop   uint64              // removes the byte before the window from a hash: base to the power of window
	begins [1 << hashBits]bool // hashes of the forms' first window bytes
	inside [256]bool           // bytes of the forms, escaped or not
	held   int                 // longest escaped form, and so the most that is held back
}

// longestEscape is the most bytes for one byte of a secret: two hexadecimal digits, each as \\u0041; a letter of UTF-16
// as \u0041\u0000; or an HTML escape within JSON.
const longestEscape = 16

// punctuation is what a form can have beside letters and digits: base64's, the escapes', and UTF-16's zeros.
const punctuation = "+/-_=" + `\%&#;` + "\x00"

// Half selects the secret half of a Basic credential, user:password.
type Half string

// Auto is the password, or the user if the password is shorter than [MinLength] or a known placeholder.
const (
	Auto     Half = "auto"
	Password Half = "password"
	User     Half = "user"
	Both     Half = "both"
)

// New returns the secret in a header whose value is prefix and secret. The scheme ("Bearer") is not part of it. For
// Basic it also finds half; any other scheme takes only [Auto].
func New(prefix, secret string, half Half) (*Secret, error) {
	parts, err := split(prefix, secret, half)
	if err != nil {
		return nil, err
	}
	return of(parts), nil
}

// All returns several secrets as one.
func All(secrets ...string) (*Secret, error) {
	for _, s := range secrets {
		if len(s) < MinLength {
			return nil, errShort
		}
	}
	return of(secrets), nil
}

var errShort = fmt.Errorf("the secret has fewer than %d bytes, too few to tell it from other text in an answer",
	MinLength)

func of(parts []string) *Secret {
	s := &Secret{drop: 1}
	for _, part := range parts {
		s.held = max(s.held, longestEscape*len(part))
		for _, form := range forms(part) {
			if !slices.ContainsFunc(s.forms, func(f []byte) bool { return string(f) == form }) {
				s.forms = append(s.forms, []byte(form))
			}
		}
	}
	s.window = len(slices.MinFunc(s.forms, byLength))
	for range s.window {
		s.drop *= hashBase
	}
	for b := range s.inside {
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		s.inside[b] = letter || b >= '0' && b <= '9' || strings.IndexByte(punctuation, byte(b)) >= 0
	}
	for _, form := range s.forms {
		s.begins[s.hash(form[:s.window])>>(64-hashBits)] = true
		for _, b := range form {
			s.inside[b] = true
		}
	}
	return s
}

func (*Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

func byLength(a, b []byte) int { return len(a) - len(b) }

// placeholders are passwords that mark the user as the token: GitHub's and Toggl's.
var placeholders = []string{"x-oauth-basic", "api_token"}

func split(prefix, secret string, half Half) ([]string, error) {
	scheme, token, _ := strings.Cut(prefix+secret, " ")
	if token = strings.TrimLeft(token, " "); prefix != "" || len(token) < MinLength {
		token = secret
	}
	if len(token) < MinLength {
		return nil, errShort
	}
	pair, err := base64.StdEncoding.DecodeString(token)
	if basic := strings.EqualFold(scheme, "Basic") && err == nil; !basic {
		if half != Auto {
			return nil, fmt.Errorf("the secret is not a Basic credential (user:password in base64), "+
				"so it has no half %q", half)
		}
		return []string{token}, nil
	}
	user, password, _ := strings.Cut(string(pair), ":")
	if half == Auto {
		if slices.Contains(placeholders, password) {
			password = ""
		}
		for _, part := range []string{password, user, string(pair)} {
			if len(part) >= MinLength {
				return []string{token, part}, nil
			}
		}
		return nil, fmt.Errorf("the user and the password together have fewer than %d bytes, too few to tell it from "+
			"other text in an answer", MinLength)
	}
	parts := map[Half][]string{Password: {token, password}, User: {token, user}, Both: {token, user, password}}[half]
	if parts == nil {
		return nil, fmt.Errorf("%q is not a part of a Basic credential", half)
	}
	if slices.ContainsFunc(parts, func(part string) bool { return len(part) < MinLength }) {
		return nil, fmt.Errorf("a secret half of the credential has fewer than %d bytes, too few to tell it from other "+
			"text in an answer", MinLength)
	}
	return parts, nil
}

// forms returns the unescaped texts in which a server may repeat a secret.
func forms(secret string) []string {
	all := []string{
		secret, strings.ReplaceAll(secret, " ", "+"), // web forms write a space as +
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes before the secret in its group of three
			text := alphabet.EncodeToString(append(make([]byte, before), secret...))
			// The first and last characters also hold bits of the neighbours.
			all = append(all, text[(8*before+5)/6:8*(before+len(secret))/6])
		}
	}
	return all
}
