package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/internal/wire"
)

// TokenEndpoint is an OAuth 2.0 token endpoint and its client (RFC 6749 section 2.3.1).
type TokenEndpoint struct {
	URL      string
	ClientID string // empty if the grant itself identifies the client
	// SecretFile holds the client's secret; empty for a public client.
	SecretFile string
	// InParams sends the client's secret in the body instead of in Authorization.
	InParams bool
}

// OAuthOptions select one grant: a refresh token (RFC 6749 section 6), a token exchange (RFC 8693), an identity
// assertion (draft-ietf-oauth-identity-assertion-authz-grant), or else the client's own credentials (section 4.4).
type OAuthOptions struct {
	TokenEndpoint
	Scopes             []string
	Audience, Resource string // of the token (RFC 8693, RFC 8707); may be empty
	// RefreshFile holds the first refresh token. Kept receives each further one, before its access token is used.
	RefreshFile, Kept string
	// SubjectFile holds the token to exchange, SubjectType its type, such as access_token.
	SubjectFile, SubjectType string
	// Identity is the identity provider that exchanges the token in SubjectFile for an assertion.
	Identity *TokenEndpoint
	HTTP     http.RoundTripper
	Now      func() time.Time
}

type oauth struct{ OAuthOptions }

// OAuth is the source of an access token from a token endpoint.
func OAuth(o OAuthOptions) Source { return Renewed(o.Now, oauth{o}.fetch) }

const (
	grantURN     = "urn:ietf:params:oauth:grant-type:"
	tokenTypeURN = "urn:ietf:params:oauth:token-type:"
)

func (o oauth) fetch(ctx context.Context) (Value, error) {
	params := url.Values{}
	for name, value := range map[string]string{"scope": strings.Join(o.Scopes, " "), "audience": o.Audience,
		"resource": o.Resource} {
		if value != "" {
			params.Set(name, value)
		}
	}
	switch {
	case o.RefreshFile != "":
		return o.refresh(ctx, params)
	case o.Identity != nil:
		return o.assert(ctx, params)
	case o.SubjectFile != "":
		if err := o.exchange(params); err != nil {
			return Value{}, err
		}
	default:
		params.Set("grant_type", "client_credentials")
	}
	token, err := fetchToken(ctx, o.HTTP, o.Now, o.TokenEndpoint, params)
	return valueOf(token), err
}

func valueOf(t *oauth2.Token) Value {
	if t == nil {
		return Value{}
	}
	return Value{Secret: t.AccessToken, End: t.Expiry}
}

// exchange adds a token exchange (RFC 8693 section 2.1).
func (o oauth) exchange(params url.Values) error {
	subject, err := readToken(o.SubjectFile)
	params.Set("grant_type", grantURN+"token-exchange")
	params.Set("subject_token", subject)
	params.Set("subject_token_type", tokenTypeURN+o.SubjectType)
	return err
}

// assert has the identity provider make an assertion for the API's authorization server, and presents it there.
func (o oauth) assert(ctx context.Context, params url.Values) (Value, error) {
	if err := o.exchange(params); err != nil {
		return Value{}, err
	}
	params.Set("requested_token_type", tokenTypeURN+"id-jag")
	assertion, err := fetchToken(ctx, o.HTTP, o.Now, *o.Identity, params)
	if err != nil {
		return Value{}, err
	}
	if issued, _ := assertion.Extra("issued_token_type").(string); issued != tokenTypeURN+"id-jag" {
		return Value{}, custody.Unavailable(nil,
			"the identity provider %s gave a token that is no identity assertion (issued_token_type)", o.Identity.URL)
	}
	token, err := fetchToken(ctx, o.HTTP, o.Now, o.TokenEndpoint, assertionGrant(assertion.AccessToken))
	return valueOf(token), err
}

// assertionGrant is RFC 7523 section 2.1.
func assertionGrant(assertion string) url.Values {
	return url.Values{"grant_type": {grantURN + "jwt-bearer"}, "assertion": {assertion}}
}

// kept is the file of a refresh token that replaced the first one.
type kept struct {
	First string `json:"first"` // SHA-256 of the first one: a new first one makes the file stale
	Token string `json:"token"`
}

// refreshing has a turn for each file of a refresh token: rules that share a token must not use it at the same time.
var refreshing sync.Map

// refresh uses a refresh token once. The token that replaces it is stored before anything else: the server may take the
// use of an old one for a theft (RFC 9700 section 4.14.2).
func (o oauth) refresh(ctx context.Context, params url.Values) (Value, error) {
	turn, _ := refreshing.LoadOrStore(o.Kept, make(chan struct{}, 1))
	select {
	case turn.(chan struct{}) <- struct{}{}:
		defer func() { <-turn.(chan struct{}) }()
	case <-ctx.Done():
		return Value{}, custody.Unavailable(ctx.Err(), "another rule uses the refresh token in %s for too long",
			o.RefreshFile)
	}
	k, err := o.kept()
	if err == nil {
		err = o.keep(k) // a state that cannot be written must be found before the token is spent
	}
	if err != nil {
		return Value{}, err
	}
	params.Set("grant_type", "refresh_token")
	params.Set("refresh_token", k.Token)
	token, err := fetchToken(ctx, o.HTTP, o.Now, o.TokenEndpoint, params)
	if err != nil {
		return Value{}, err
	}
	if token.RefreshToken != k.Token { // x/oauth2 repeats it if the answer has none
		k.Token = token.RefreshToken
		err = o.keep(k)
	}
	return valueOf(token), err
}

// kept returns the token to use. A stored one that cannot be read stops the renewal: the first one is then spent.
func (o oauth) kept() (kept, error) {
	first, err := readToken(o.RefreshFile)
	if err != nil {
		return kept{}, err
	}
	k := kept{First: evidence.HashBytes([]byte(first)), Token: first}
	raw, err := files.Read(o.Kept)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	var stored kept
	if err == nil {
		err = strictjson.Parse(raw, &stored)
	}
	switch {
	case err != nil || stored.Token == "":
		return kept{}, custody.Unavailable(err,
			"the stored refresh token in %s cannot be read: put a new one into %s, and "+
				"remove that file", o.Kept, o.RefreshFile)
	case stored.First == k.First:
		return stored, nil
	}
	return k, nil
}

func (o oauth) keep(k kept) error {
	raw, err := strictjson.CanonicalOf(k)
	if err == nil {
		err = files.Replace(o.Kept, raw, 0o600)
	}
	if err != nil {
		return custody.Unavailable(err, "the refresh token cannot be stored in %s", o.Kept)
	}
	return nil
}

func readToken(path string) (string, error) {
	token, err := files.ReadSecret(path, 1)
	if err != nil {
		return "", custody.Unavailable(err, "the file %s of the credential cannot be read, or is empty", path)
	}
	return token, nil
}

// fetchToken asks a token endpoint. It follows no redirect, and reads no answer that is long or not JSON.
func fetchToken(ctx context.Context, via http.RoundTripper, now func() time.Time, at TokenEndpoint, params url.Values) (
	*oauth2.Token, error) {
	c := clientcredentials.Config{ClientID: at.ClientID, TokenURL: at.URL, EndpointParams: params,
		AuthStyle: oauth2.AuthStyleInParams}
	if at.SecretFile != "" {
		var err error
		if c.ClientSecret, err = readToken(at.SecretFile); err != nil {
			return nil, err
		}
		if !at.InParams {
			c.AuthStyle = oauth2.AuthStyleInHeader
		}
	}
	asked := &tokenTrip{via: via, most: maxTokenAnswer}
	client := &http.Client{Transport: asked, CheckRedirect: wire.Stay}
	token, err := c.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err == nil {
		return token, nil
	}
	return nil, asked.failed(err, at.URL, asked.explain(err), now())
}

// maxTokenAnswer bounds an answer of a token endpoint, in bytes.
const maxTokenAnswer = 64 << 10

// tokenTrip judges the answer of a token endpoint before its body is parsed.
type tokenTrip struct {
	via  http.RoundTripper
	most int // bytes of an answer
	resp *http.Response
	bad  string // what is wrong with the answer's form
}

var errTokenAnswer = errors.New("the answer is not read")

func (t *tokenTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Accept", "application/json")
	resp, err := t.via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.resp = resp
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(t.most)+1))
	_ = resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		t.bad = fmt.Sprintf("answered with a redirect (%d), which is not followed", resp.StatusCode)
	case err != nil:
		t.bad = "broke off its answer"
	case len(body) > t.most:
		t.bad = fmt.Sprintf("answered with more than %d bytes", t.most)
	case len(body) == 0:
		t.bad = fmt.Sprintf("answered with %d and no content", resp.StatusCode)
	case kind != "application/json":
		t.bad = fmt.Sprintf("answered with %d and %.60q instead of JSON", resp.StatusCode, kind)
	default:
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
	return nil, errTokenAnswer
}

// errorCode is the form of an error code (RFC 6749 section 5.2).
var errorCode = pattern.New(`^[a-z_]{1,60}$`)

// TokenRefused says how a token endpoint has refused a request. It leaves out the endpoint's own words, which can
// repeat a secret.
func TokenRefused(r *oauth2.RetrieveError) string {
	said := fmt.Sprintf("refused with %d", r.Response.StatusCode)
	if errorCode.MatchString(r.ErrorCode) {
		said += " " + r.ErrorCode
	}
	return said
}

func (t *tokenTrip) explain(err error) string {
	var refused *oauth2.RetrieveError
	switch {
	case t.bad != "":
		return t.bad
	case t.resp == nil:
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "does not answer: " + err.Error()
	case errors.As(err, &refused):
		return TokenRefused(refused)
	}
	return fmt.Sprintf("answered with %d, but without an access token", t.resp.StatusCode)
}

// failed is the error of a token that was not got: said is what the endpoint did. It names a difference of the clocks.
func (t *tokenTrip) failed(err error, url, said string, now time.Time) error {
	if t.resp != nil {
		if skew := Skew(t.resp, now); skew != 0 {
			said += fmt.Sprintf("; its clock is %s %s ours", skew.Abs(),
				map[bool]string{true: "behind", false: "ahead of"}[skew < 0])
		}
	}
	return custody.Unavailable(err, "the token endpoint %s %s", url, said)
}
