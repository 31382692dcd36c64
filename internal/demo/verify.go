package demo

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/client"
)

// demoTask is the task of the demo's verifications. It is like the built-in ones, but it may be done at once: they take three or four seconds.
const demoTask = `[{
  "id": "demo",
  "prompt": "Search the plugin registry, list the MCP servers of this deployment, and compare what both offer.",
  "requiredTools": ["search_plugins", "list_mcp_servers"], "minTurns": 3, "minDurationMs": 0
}]
`

// verifyAgents has a deployment's node verify agents, and its policy demand a verified agent of posts by the rule post-verified.
func verifyAgents(content map[string][]byte) {
	content["tasks.json"] = []byte(demoTask)
	content[devstack.ReputationFile] = append(slices.Clone(content[devstack.ReputationFile]), "\nverification: {tasks: tasks.json, servers: [{name: notes, role: keeps notes}]}\n"...)
	content[devstack.PolicyFile] = append(slices.Clone(content[devstack.PolicyFile]), `
  # One rule is for agents that have passed a verification in the last hour.
  - name: verified-alone
    effect: deny
    when: request.rule == "post-verified" && !(autonomy.verified && autonomy.verifiedAge < duration("1h"))
`...)
}

// Verify passes a verification as a script does: it calls each tool for real, uses each result, and its reasoning repeats the task's own words. No
// model is involved.
func Verify(ctx context.Context, n *client.Node, name string) (*client.Registered, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	v, err := n.Start(ctx, key)
	if err != nil {
		return nil, err
	}
	began, canary := time.Now(), ""
	for !v.Answered {
		tool, query := v.Task.RequiredTools[len(v.Turns)%len(v.Task.RequiredTools)], ""
		if tool == verification.ToolSearch {
			query = "notes"
		}
		if v.FollowUp != "" {
			tool, query = client.Asked(v.FollowUp)
			if err := waitFor(ctx, time.Until(began.Add(time.Duration(v.Task.MinDurationMS)*time.Millisecond))); err != nil {
				return nil, err
			}
		}
		if err := n.Call(ctx, v, tool, query); err != nil {
			return nil, err
		}
		next := v.Call.Canary()
		if err := n.Submit(ctx, v, fmt.Sprintf("%s I called %s; %s leads to %s.", v.Task.Prompt, tool, canary, next)); err != nil {
			return nil, err
		}
		if canary = next; len(v.Turns) == 1 {
			began = time.Now()
		}
		if len(v.Turns) == verification.MaxTurns {
			return nil, errors.New("the node takes no answer to its follow-up")
		}
	}
	return n.Register(ctx, v, key, verification.Metadata{Name: name})
}

// verify is the agent that passes a verification at the node, which it reaches through the mediator.
func (c Call) verify(ctx context.Context) (answer Answer, err error) {
	posts := &postsSeen{next: http.DefaultTransport}
	n, err := client.Dial(ctx, c.URL, posts)
	if err != nil {
		return answer, err
	}
	defer n.Close()
	r, err := Verify(ctx, n, "demo")
	if err != nil {
		return answer, err
	}
	answer = Answer{Status: http.StatusOK, Post: posts.last, Detail: fmt.Sprintf("%d of %d", r.Score, r.MaxScore)}
	if !r.Success {
		answer.Code = strings.Join(r.Violations, ", ")
	}
	return answer, nil
}

// postsSeen remembers the record of the last answer that names one: that of a post, if a post was the last call.
type postsSeen struct {
	next http.RoundTripper
	last string
}

// RoundTrip makes the request.
func (p *postsSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(r)
	if err == nil && resp.Request.Method == http.MethodPost {
		p.last = resp.Header.Get(forward.PostHeader)
	}
	return resp, err
}

// wholeVerification is what the agent that is verified says if it has got everything right.
const wholeVerification = "105 of 105, a post"

// verified plays the agent that is verified. It says its score, and whether its registration was a post.
func (d *Deployment) verified(ctx context.Context) (string, error) {
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+"/mcp", "--verify")
	if err != nil || r.Code != "" {
		return r.Outcome(), err
	}
	if r.Post == "" {
		return r.Detail, nil
	}
	return r.Detail + ", a post", nil
}

// postVerified plays an agent whose post is for agents that were verified.
func (d *Deployment) postVerified(ctx context.Context) (string, error) {
	r, err := d.byReputation(ctx, "POST", "https://"+d.Plain()+"/verified", "--body", `{"body":"verified"}`)
	return r.Outcome(), err
}
