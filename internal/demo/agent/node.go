package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/reputation/verification/client"
)

// Promised is the number of calls to the model that the agent commits to.
const Promised = 1

// commit takes a challenge of the node: it commits to one call to the model at c.Commit, makes c.Calls calls, and
// reveals the commitment. It returns the model's last answer.
func (c Call) commit(ctx context.Context) (answer trial.Answer, err error) {
	var issued struct {
		Nonce string `json:"challenge_nonce"`
	}
	if err := askMediator(ctx, "/v1/challenge/issue", struct{}{}, &issued); err != nil {
		return answer, err
	}
	plan := strategy.Strategy{
		Tools: []string{}, Hosts: []string{c.Commit}, Model: ModelName,
		Calls: strategy.Calls{Min: Promised, Max: Promised},
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	salt := base64.RawURLEncoding.EncodeToString(random)
	hash, err := strategy.Commitment(issued.Nonce, salt, plan)
	if err != nil {
		return answer, err
	}
	const path = "/v1/challenge/commit"
	commitment := map[string]string{"challenge_nonce": issued.Nonce, "commitment_hash": hash}
	if err := askMediator(ctx, path, commitment, nil); err != nil {
		return answer, err
	}
	for range c.Calls {
		if answer, err = c.send(ctx, nil); err != nil || answer.Code != "" {
			return answer, err
		}
	}
	reveal := map[string]any{"challenge_nonce": issued.Nonce, "salt": salt, "strategy": plan}
	return answer, askMediator(ctx, path, reveal, nil)
}

func askMediator(ctx context.Context, path string, document, answer any) error {
	resp, raw, err := post(ctx, "http://"+proxy.InternalHost+path, nil, document)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s: %s", path, resp.Status, raw)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(raw, answer)
}

func (c Call) verify(ctx context.Context) (answer trial.Answer, err error) {
	posts := &lastPost{}
	n, err := client.Dial(ctx, c.URL, posts)
	if err != nil {
		return answer, err
	}
	defer n.Close()
	r, err := passVerification(ctx, n)
	if err != nil {
		return answer, err
	}
	answer = trial.Answer{
		Status: http.StatusOK, Post: posts.record, Detail: fmt.Sprintf("%d of %d", r.Score, r.MaxScore),
	}
	if !r.Success {
		answer.Code = strings.Join(r.Violations, ", ")
	}
	return answer, nil
}

// passVerification passes a verification as a script does: it calls each tool, uses each result, and repeats the task's
// words as its reasoning.
func passVerification(ctx context.Context, n *client.Node) (*client.Registered, error) {
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
			least := time.Duration(v.Task.MinDurationMS) * time.Millisecond
			if err := every.Sleep(ctx, time.Until(began.Add(least))); err != nil {
				return nil, err
			}
		}
		if err := n.Call(ctx, v, tool, query); err != nil {
			return nil, err
		}
		next := v.Call.Canary()
		reasoning := fmt.Sprintf("%s I called %s; %s leads to %s.", v.Task.Prompt, tool, canary, next)
		if err := n.Submit(ctx, v, reasoning); err != nil {
			return nil, err
		}
		if canary = next; len(v.Turns) == 1 {
			began = time.Now()
		}
		if len(v.Turns) == verification.MaxTurns {
			return nil, errors.New("the node accepts no answer to its follow-up")
		}
	}
	return n.Register(ctx, v, key, verification.Metadata{Name: "demo"})
}

type lastPost struct{ record string }

// RoundTrip makes the request.
func (p *lastPost) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.Request.Method == http.MethodPost {
		p.record = resp.Header.Get(forward.PostHeader)
	}
	return resp, err
}
