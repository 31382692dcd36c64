package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/credential"
)

const (
	callback = "/login/callback" // to which the provider sends the browser back
	// attemptLife bounds the time between leaving for the provider and coming back.
	attemptLife = 10 * time.Minute
	// teamLife bounds a session that a provider began. After it the provider says again which groups the user has.
	teamLife = time.Hour
	// providerTimeout and maxAnswer bound an answer of the provider. maxAnswer is in bytes.
	providerTimeout, maxAnswer = 10 * time.Second, 1 << 20
	// maxAsks bounds the requests to the provider at once: strangers cause one each.
	maxAsks = 8
	maxTo   = 2 << 10 // bytes of the path to return to
)

// provider lets users log in at an OpenID provider (OpenID Connect Core 1.0 section 3.1) with PKCE (RFC 7636).
type provider struct {
	*config.Console
	callback string
	http     *http.Client
	now      func() time.Time

	mu    sync.Mutex // guards known
	known *oidc.Provider
}

func newProvider(c *config.Console, at *url.URL, now func() time.Time) *provider {
	over := tls.Dialer{Config: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}}
	via := &http.Transport{DialTLSContext: over.DialContext, DisableKeepAlives: true, MaxConnsPerHost: maxAsks,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("the provider's metadata has a URL without TLS")
		}}
	return &provider{Console: c, callback: at.JoinPath(callback).String(), now: now, http: &http.Client{
		Transport: wire.Bounded(maxAnswer, via), CheckRedirect: wire.Stay, Timeout: providerTimeout}}
}

// client returns the console as a client of the provider, which it discovers once.
func (p *provider) client(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		found, err := oidc.NewProvider(ctx, p.Issuer)
		if err == nil && !strings.HasPrefix(found.Endpoint().AuthURL, "https://") {
			err = errors.New("its authorization endpoint has no TLS")
		}
		if err != nil {
			return nil, nil, err
		}
		p.known = found
	}
	c := &oauth2.Config{ClientID: p.ClientID, Endpoint: p.known.Endpoint(), RedirectURL: p.callback,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if p.SecretFile != "" {
		var err error
		if c.ClientSecret, err = files.ReadSecret(p.SecretFile, 1); err != nil {
			return nil, nil, err
		}
		c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return c, p.known, nil
}

// attempt is a login that has begun. Its cookie has all of it, so strangers who begin many fill nothing here.
type attempt struct {
	verifier string // of PKCE; the secret of the attempt
	to       string // the page to show afterwards
}

func (a attempt) String() string {
	return a.verifier + "." + base64.RawURLEncoding.EncodeToString([]byte(a.to))
}

func parseAttempt(cookie string) (a attempt) {
	verifier, to, _ := strings.Cut(cookie, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(to) // without it the login ends at the first page
	return attempt{verifier, string(raw)}
}

// derived returns the state or the nonce of the attempt. They do not give the verifier away.
func (a attempt) derived(name string) string {
	sum := sha256.Sum256([]byte(name + " " + a.verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *Server) attemptCookie() string { return s.prefix() + "console-login" }

func (s *Server) askProvider(w http.ResponseWriter, r *http.Request) {
	client, _, err := s.provider.client(oidc.ClientContext(r.Context(), s.provider.http))
	if err != nil {
		s.failLogin(w, err)
		return
	}
	a := attempt{verifier: oauth2.GenerateVerifier()}
	if to := r.URL.Query().Get("to"); len(to) <= maxTo {
		a.to = to
	}
	s.setCookie(w, s.attemptCookie(), a.String(), attemptLife, http.SameSiteLaxMode) // the provider's page leads back
	http.Redirect(w, r, client.AuthCodeURL(a.derived("state"), oauth2.S256ChallengeOption(a.verifier),
		oidc.Nonce(a.derived("nonce"))), http.StatusSeeOther)
}

// believeProvider begins a session for the user whom the provider names. Its page leads on by itself: the provider's
// page began a redirect, so with one the browser would send no strict cookie.
func (s *Server) believeProvider(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var a attempt
	if cookie, err := r.Cookie(s.attemptCookie()); err == nil {
		a = parseAttempt(cookie.Value)
	}
	s.setCookie(w, s.attemptCookie(), "", 0, http.SameSiteLaxMode) // an attempt is good once
	if a.verifier == "" || !same(q.Get("state"), a.derived("state")) {
		fail(w, refusal.New("console_refused", "the OpenID provider's answer belongs to no login of this browser"))
		return
	}
	if said := q.Get("error"); said != "" {
		s.failLogin(w, errors.New("it says "+said+" "+q.Get("error_description")))
		return
	}
	subject, may, err := s.provider.user(r.Context(), q.Get("code"), a)
	if err != nil {
		s.failLogin(w, err)
		return
	}
	log := s.Log
	if may == nothing {
		log = s.failures // some providers give strangers an account
	}
	log.Info("login", zap.String("subject", subject), zap.Bool("everything", may == everything),
		zap.Bool("refused", may == nothing))
	if may == nothing {
		fail(w, refusal.New("console_denied", "none of the groups of %.200q may see this console", subject))
		return
	}
	session := s.browsers.issue(may, teamLife, s.Now())
	s.setCookie(w, s.cookie(), session, teamLife, http.SameSiteStrictMode)
	page := s.within(a.to)
	w.Header().Set("Refresh", "0; url="+page)
	view{"", "Logged in", Group{H1(Text("Logged in")),
		P(A(to(place(page)), Text("Open the console")))}}.write(w, http.StatusOK)
}

// within returns a page of the console, which is the first one unless to names another.
func (s *Server) within(to string) string {
	first := s.URL.JoinPath("/")
	at, err := first.Parse(to)
	if err != nil || at.Scheme != first.Scheme || at.Host != first.Host || at.User != nil {
		return first.String()
	}
	return at.String()
}

// user exchanges a code for an ID token, verifies it, and returns whom it names, and what they may see.
func (p *provider) user(ctx context.Context, code string, a attempt) (subject string, may role, err error) {
	ctx = oidc.ClientContext(ctx, p.http)
	client, known, err := p.client(ctx)
	if err != nil {
		return "", nothing, err
	}
	answer, err := client.Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) {
		return "", nothing, errors.New(credential.TokenRefused(refused))
	} else if err != nil {
		return "", nothing, err
	}
	raw, _ := answer.Extra("id_token").(string)
	token, err := known.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return "", nothing, err
	}
	if !same(token.Nonce, a.derived("nonce")) {
		return "", nothing, errors.New("its token has another login's nonce")
	}
	claims, err := members(token)
	if err != nil {
		return "", nothing, err
	}
	if azp := claims["azp"]; azp != nil || len(token.Audience) > 1 {
		var party string
		if err := json.Unmarshal(azp, &party); err != nil || party != p.ClientID {
			return "", nothing, errors.New("its token was issued to another client (azp)")
		}
	}
	return token.Subject, p.roleOf(claims[p.GroupsClaim]), nil
}

// members returns the claims of a token. It refuses what the library may have read otherwise: names that occur twice or
// in another case.
func members(token *oidc.IDToken) (claims map[string]json.RawMessage, err error) {
	var raw json.RawMessage
	if err := token.Claims(&raw); err != nil {
		return nil, err
	}
	if err := strictjson.ParseMembers(raw, &claims); err != nil {
		return nil, err
	}
	for name := range claims {
		if slices.ContainsFunc(readClaims, func(c string) bool { return c != name && strings.EqualFold(c, name) }) {
			return nil, fmt.Errorf("its token has the claim %.20q", name)
		}
	}
	if token.Subject == "" {
		return nil, errors.New("its token has no subject (sub)")
	}
	return claims, nil
}

// readClaims are the claims that the library reads.
var readClaims = []string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce"}

// roleOf reads a claim with a list of groups, or a single one.
func (p *provider) roleOf(claim json.RawMessage) role {
	var groups []string
	if json.Unmarshal(claim, &groups) != nil {
		var one string
		if json.Unmarshal(claim, &one) != nil {
			return nothing
		}
		groups = []string{one}
	}
	isIn := func(of []string) bool {
		return slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(of, group) })
	}
	switch {
	case isIn(p.Groups):
		return everything
	case isIn(p.SummaryGroups):
		return summaries
	}
	return nothing
}

// failLogin logs why a login at the provider failed. The browser, which may be a stranger's, does not learn it.
func (s *Server) failLogin(w http.ResponseWriter, err error) {
	s.failures.Warn("login failed", zap.Error(fmt.Errorf("the OpenID provider %s: %.400s", s.provider.Issuer, err)))
	fail(w, refusal.New("console_login_failed", "the login at %s failed: the console's log says why",
		s.provider.Issuer))
}
