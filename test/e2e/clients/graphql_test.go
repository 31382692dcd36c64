package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const graphQLRules = `
actions:
  - name: comment
    match: {url: "https://api.github.com/graphql", graphql: {type: mutation, fields: [addComment]}}
    subject: agent:worker-1
    action: create_comment
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
  - name: queries
    match: {url: "https://api.github.com/graphql", graphql: {type: query}}
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: reads
    match: {url: "https://api.github.com/**", methods: [GET]}
upstreams:
  - {host: "api.github.com:443", address: "UPSTREAM", networks: [127.0.0.0/8], ca: api-ca.pem}
`

func newGitHub(t *testing.T, condition string) *kit.Rig {
	t.Helper()
	return kit.NewRig(t, []string{"api.github.com"}, func(r *kit.Rig) (http.Handler, string) {
		if condition != "" {
			policy := fmt.Sprintf("version: \"1.0\"\nrules:\n  - name: comments\n    when: '%s'\n", condition)
			kit.Write(t, r.In(devstack.PolicyFile), policy)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			raw, err := io.ReadAll(req.Body)
			var ask struct{ Query string }
			if err != nil || json.Unmarshal(raw, &ask) != nil || req.URL.Path != "/graphql" ||
				req.Header.Get("Authorization") != "Bearer "+trial.Token {
				t.Errorf("%s %s, Authorization %q: %s", req.Method, req.URL, req.Header.Get("Authorization"), raw)
			}
			kit.AnswerJSON(w, gitHubAnswer(r, ask.Query))
		}), graphQLRules
	})
}

func gitHubAnswer(r *kit.Rig, query string) string {
	const issue = `{"id":"I_7","number":7,"title":"An issue","state":"OPEN",` +
		`"url":"https://github.com/acme/site/issues/7","author":{"login":"a"},` +
		`"body":"text","comments":{"nodes":[],"totalCount":0},"assignees":{"nodes":[]},"labels":{"nodes":[],"totalCount":` +
		`0},` +
		`"projectCards":{"nodes":[]},"reactionGroups":[],"updatedAt":"2026-11-22T10:00:00Z","createdAt":"2026-11-22T10:00:` +
		`00Z"}`
	if strings.Contains(query, "addComment") {
		name := "addComment"
		if strings.Contains(query, "said:") {
			name = "said"
		}
		return fmt.Sprintf(
			`{"data":{%q:{"commentEdge":{"node":{"url":"https://github.com/acme/site/issues/7#issuecomment-%d"}}}}}`, name,
			r.Posts.Add(1))
	}
	return `{"data":{"me":{"login":"octocat"},"viewer":{"login":"octocat"},"repository":{"hasIssuesEnabled":true,` +
		`"issue":` + issue + `,"issues":{"nodes":[` + issue + `],"totalCount":1,"pageInfo":{"hasNextPage":false}},` +
		`"pullRequests":{"nodes":[],"totalCount":0,"pageInfo":{"hasNextPage":false}}}}}`
}

func TestGraphQLClients(t *testing.T) {
	t.Parallel()
	gh := []string{"env", "GH_TOKEN=placeholder", "GH_NO_UPDATE_NOTIFIER=1", "GH_CONFIG_DIR=" + t.TempDir(),
		kit.Need(t, "gh")}
	octokit := append(kit.NodeJS(t), kit.Scripts+"node/octokit-graphql.mjs")
	r := newGitHub(t, "")
	for _, tt := range []struct {
		name    string
		client  []string
		args    []string
		want    string
		posts   int64
		refused string
	}{
		{"gh asks who it is", gh, []string{"api", "graphql", "-f", "query={ viewer { login } }"}, `"login":"octocat"`, 0, ""},
		{"gh lists issues", gh, []string{"issue", "list", "-R", "acme/site"}, "An issue", 0, ""},
		{"gh lists pull requests", gh, []string{"pr", "list", "-R", "acme/site", "--json", "title"}, "[]", 0, ""},
		{"gh shows an issue", gh, []string{"issue", "view", "7", "-R", "acme/site"}, "An issue", 0, ""},
		{"gh comments", gh, []string{"issue", "comment", "7", "-R", "acme/site", "--body", "released"}, "issuecomment-", 1,
			""},
		{"gh closes an issue", gh, []string{"issue", "close", "7", "-R", "acme/site"},
			"action_unmatched: no rule names the mutation closeIssue", 0, "action_unmatched"},
		{"gh sends a mutation", gh,
			[]string{"api", "graphql", "-f", "query=mutation { deleteIssue(input: {}) { clientMutationId } }"},
			"action_unmatched", 0, "action_unmatched"},
		{"gh sends a mutation by GET, in the URL", gh,
			[]string{"api", "-X", "GET", "graphql", "-f", "query=mutation { addComment(input: {}) { clientMutationId } }"},
			"(HTTP 403)", 0, "graphql_refused"},
		{"Octokit asks by an alias", octokit, []string{"viewer"}, `"me":{"login":"octocat"}`, 0, ""},
		{"Octokit comments", octokit, []string{"comment"}, "issuecomment-", 1, ""},
		{"Octokit comments by a fragment and an alias", octokit, []string{"fragment"}, "issuecomment-", 1, ""},
		{"Octokit hides a mutation behind an alias", octokit, []string{"delete"},
			"403 action_unmatched: no rule names the mutation deleteIssue", 0, "action_unmatched"},
		{"Octokit picks the query beside a mutation", octokit, []string{"pick"},
			"403 action_unmatched: no rule names the mutation deleteIssue", 0, "action_unmatched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, refused := r.Posts.Load(), len(r.RecordsOf(t, "", tt.refused))
			out, err := r.AsAgent(t, kit.With(tt.client, tt.args...)...)
			if err != nil && tt.refused == "" || !strings.Contains(fmt.Sprint(out, err), tt.want) {
				t.Fatalf("got %q, %v; want %q", out, err, tt.want)
			}
			if got := r.Posts.Load() - before; got != tt.posts {
				t.Errorf("%d posts arrived, not %d", got, tt.posts)
			}
			if tt.refused != "" && len(r.RecordsOf(t, "", tt.refused)) == refused {
				t.Errorf("nothing is recorded as %s", tt.refused)
			}
			if strings.Contains(out, trial.Token) {
				t.Error("the agent saw the API's credential")
			}
		})
	}
	for _, rec := range r.RecordsOf(t, "comment", "") {
		r.VerifyRecord(t, rec.ID)
		if rec.Resource != "POST /graphql mutation addComment" || rec.Action != "create_comment" ||
			rec.State != ledger.StateForwarded {
			t.Errorf("recorded was %+v", rec)
		}
	}
}

func TestGraphQLPolicy(t *testing.T) {
	t.Parallel()
	gh := []string{"env", "GH_TOKEN=placeholder", "GH_CONFIG_DIR=" + t.TempDir(), kit.Need(t, "gh"), "api", "graphql",
		"-f"}
	for _, tt := range []struct{ condition, want string }{
		{`graphql.type == "mutation" && graphql.fields == ["addComment"]`, "issuecomment-"},
		{`"addComment" in graphql.fields && graphql.type == "query"`, "policy_denied"},
	} {
		r := newGitHub(t, tt.condition)
		out, err := r.AsAgent(t, kit.With(gh, "query=mutation { addComment(input: {}) { clientMutationId } }")...)
		if !strings.Contains(fmt.Sprint(out, err), tt.want) {
			t.Errorf("%s: got %q, %v; want %q", tt.condition, out, err, tt.want)
		}
	}
}
