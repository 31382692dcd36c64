// Package githubtest has a server with GitHub's rules for the tokens of Apps.
package githubtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/test/check"
)

// Server gives tokens for the installation 42 of each App. It has every repository but absent, and the permissions
// contents and issues. The installation 43 is suspended.
type Server struct {
	Keys map[string]*rsa.PublicKey // of the Apps, by their client IDs
	Now  func() time.Time

	mu     sync.Mutex // guards the fields below
	asked  int
	given  map[string]Scope
	answer func(w http.ResponseWriter)
}

// Scope is what a token is for.
type Scope struct {
	App          string            `json:"-"`
	Repositories []string          `json:"repositories"`
	Permissions  map[string]string `json:"permissions"`
}

// New returns a server that knows no App.
func New() *Server {
	return &Server{Keys: make(map[string]*rsa.PublicKey), Now: time.Now, given: make(map[string]Scope)}
}

// appKey is the key of all Apps of a test: it takes long to make.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// AddApp adds an App, and returns its key as GitHub does.
func (s *Server) AddApp(t *testing.T, id string) (file string) {
	key, err := appKey()
	check.Must(t, err)
	s.Keys[id] = &key.PublicKey
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// AnswerBy replaces the answers to all requests; nil does no longer.
func (s *Server) AnswerBy(answer func(w http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Asked returns how many requests there were.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Given returns what the token of a request is for.
func (s *Server) Given(r *http.Request) Scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
}

// ServeHTTP implements [http.Handler] for POST /app/installations/N/access_tokens below any path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Date", s.Now().UTC().Format(http.TimeFormat))
	refuse := func(status int, message string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message": %q, "seen": %q}`, message, r.Header.Get("Authorization"))
	}
	app, why := s.judge(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	_, path, _ := strings.Cut(r.URL.Path, "/app/installations/")
	var scope Scope
	switch {
	case s.answer != nil:
		s.answer(w)
	case why != "":
		refuse(http.StatusUnauthorized, why)
	case path == "43/access_tokens":
		refuse(http.StatusForbidden, "This installation has been suspended")
	case r.Method != http.MethodPost || path != "42/access_tokens":
		refuse(http.StatusNotFound, "Not Found")
	case json.NewDecoder(r.Body).Decode(&scope) != nil || scope.excessive():
		refuse(http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
	default:
		scope.App = app
		s.give(w, scope)
	}
}

func (s Scope) excessive() bool {
	for _, name := range s.Repositories {
		if name == "absent" {
			return true
		}
	}
	for name := range s.Permissions {
		if name != "contents" && name != "issues" {
			return true
		}
	}
	return false
}

func (s *Server) give(w http.ResponseWriter, scope Scope) {
	token := fmt.Sprint("ghs_of-", scope.App, "-", s.asked)
	s.given[token] = scope
	permissions := map[string]string{"contents": "write", "issues": "write"}
	if scope.Permissions != nil {
		permissions = maps.Clone(scope.Permissions)
	}
	permissions["metadata"] = "read"
	Give(w, token, s.Now().Add(time.Hour), scope.Repositories, permissions)
}

// Give answers with a token.
func Give(w http.ResponseWriter, token string, end time.Time, repositories []string, permissions map[string]string) {
	all := []map[string]any{}
	for i, name := range repositories {
		all = append(all, map[string]any{"id": i, "name": name, "full_name": "acme/" + name})
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_at": end.UTC().Format(time.RFC3339),
		"permissions": permissions, "repository_selection": "selected", "repositories": all})
}

// judge checks an App's JWT by GitHub's rules.
func (s *Server) judge(text string) (app, why string) {
	const undecoded = "A JSON web token could not be decoded"
	jws, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "", undecoded
	}
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	if json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &claims) != nil || s.Keys[claims.Iss] == nil {
		return "", undecoded
	}
	now := s.Now().Unix()
	switch _, err := jws.Verify(s.Keys[claims.Iss]); {
	case err != nil:
		return "", undecoded
	case claims.Exp <= now || claims.Exp > now+600:
		return "", "'Expiration time' claim ('exp') is in the past or too far in the future"
	case claims.Iat > now:
		return "", "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
	}
	return claims.Iss, ""
}
