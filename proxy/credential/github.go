package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// GitHubAppOptions configure the source [GitHubApp].
type GitHubAppOptions struct {
	// App is the client ID of a GitHub App, Installation the number of its installation.
	App          string
	Installation uint64
	// KeyFile holds the App's private key in PEM. Sign, if set, signs with a key that is elsewhere.
	KeyFile string
	Sign    Signer
	// Repositories are the names of the token's only repositories. Permissions are its only permissions; if empty, it
	// has all of the installation's.
	Repositories []string
	Permissions  map[string]string
	// APIURL is the base URL of the REST API.
	APIURL string
	HTTP   http.RoundTripper
	Now    func() time.Time
}

type githubApp struct{ GitHubAppOptions }

// GitHubApp is the source of an installation access token, for a JWT that the App's key signs
// (docs.github.com/en/rest/apps/apps, "Create an installation access token for an app").
func GitHubApp(o GitHubAppOptions) Source { return Renewed(o.Now, githubApp{o}.fetch) }

// maxGitHubAnswer bounds GitHub's answer in bytes: it describes each repository at length.
const maxGitHubAnswer = 4 << 20

func (g githubApp) fetch(ctx context.Context) (Value, error) {
	signed, err := g.jwt(ctx)
	if err != nil {
		return Value{}, err
	}
	scope, err := json.Marshal(struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions,omitempty"`
	}{g.Repositories, g.Permissions})
	if err != nil {
		return Value{}, err
	}
	url := fmt.Sprintf("%s/app/installations/%d/access_tokens", strings.TrimRight(g.APIURL, "/"), g.Installation)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(scope))
	if err != nil {
		return Value{}, err
	}
	r.Header.Set("Authorization", "Bearer "+signed)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	asked := &tokenTrip{via: g.HTTP, most: maxGitHubAnswer}
	resp, err := asked.RoundTrip(r)
	var v Value
	said := ""
	switch {
	case err != nil:
		said = asked.explain(err)
	case resp.StatusCode != http.StatusCreated:
		said = fmt.Sprintf("refused with %d%s", resp.StatusCode, githubRefusals[resp.StatusCode])
	default:
		v, said = g.token(resp)
	}
	if said != "" {
		return Value{}, asked.failed(err, url, said, g.Now())
	}
	return v, nil
}

// githubRefusals say what a refusal means. GitHub's own message is not shown: it may repeat a secret.
var githubRefusals = map[int]string{
	http.StatusUnauthorized:        ": the App's client ID, its key or a clock is wrong",
	http.StatusForbidden:           ": the installation is suspended, or GitHub was asked too often",
	http.StatusNotFound:            ": the App has no such installation",
	http.StatusUnprocessableEntity: ": the installation lacks a repository or a permission that the credential names",
}

// jwt signs the App's name. GitHub takes no end that is more than ten minutes ahead, and its clock may be behind ours.
func (g githubApp) jwt(ctx context.Context) (string, error) {
	sign := g.Sign
	if sign == nil {
		key, err := readKeyFile(g.KeyFile, parseRSAKey)
		if err != nil {
			return "", err
		}
		sign = rs256(key)
	}
	now := g.Now()
	return signJWT(ctx, sign, "", map[string]any{"iss": g.App, "iat": now.Add(-time.Minute).Unix(),
		"exp": now.Add(9 * time.Minute).Unix()})
}

// token reads GitHub's answer, or says what is wrong with it. A token that may do more than was asked for is not used.
func (g githubApp) token(resp *http.Response) (v Value, bad string) {
	var answer struct {
		Token        string    `json:"token"`
		End          time.Time `json:"expires_at"`
		Selection    string    `json:"repository_selection"`
		Repositories []struct {
			Name string `json:"name"`
		} `json:"repositories"`
		Permissions map[string]string `json:"permissions"`
	}
	err := json.NewDecoder(resp.Body).Decode(&answer)
	if err != nil || answer.Token == "" || !answer.End.After(g.Now()) {
		return Value{}, "answered without a token that lasts"
	}
	for _, r := range answer.Repositories {
		if !slices.ContainsFunc(g.Repositories, func(name string) bool { return strings.EqualFold(name, r.Name) }) {
			return Value{}, fmt.Sprintf("gave a token for the repository %.100q too", r.Name)
		}
	}
	if answer.Selection != "selected" || len(answer.Repositories) == 0 {
		return Value{}, "gave a token that is not for the repositories alone"
	}
	if len(g.Permissions) > 0 && len(answer.Permissions) == 0 {
		return Value{}, "gave a token without saying its permissions"
	}
	for name, level := range answer.Permissions {
		// Every token can read metadata.
		if len(g.Permissions) > 0 && g.Permissions[name] != level && name+level != "metadataread" {
			return Value{}, fmt.Sprintf("gave a token with the permission %.60q (%.20q) too", name, level)
		}
	}
	return Value{ID: fmt.Sprintf("%s/%d", g.App, g.Installation), Secret: answer.Token, End: answer.End}, ""
}
