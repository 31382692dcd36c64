package demo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/strategy"
)

// promised is how many calls to the model the agent commits to that takes a challenge.
const promised = 1

// commit is the agent that takes a challenge of the node: it commits to ask the model at one host once, asks it c.Calls times, and reveals what
// it had committed to. It returns what the model has answered last.
func (c Call) commit(ctx context.Context) (answer Answer, err error) {
	var issued struct {
		Nonce string `json:"challenge_nonce"`
	}
	if err := askMediator(ctx, "/v1/challenge/issue", struct{}{}, &issued); err != nil {
		return answer, err
	}
	plan := strategy.Strategy{Tools: []string{}, Hosts: []string{c.Commit}, Model: ModelName, Calls: strategy.Calls{Min: promised, Max: promised}}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never fails; it ends the process instead
	salt := base64.RawURLEncoding.EncodeToString(random)
	hash, err := strategy.Commitment(issued.Nonce, salt, plan)
	if err != nil {
		return answer, err
	}
	if err := askMediator(ctx, "/v1/challenge/commit", map[string]string{"challenge_nonce": issued.Nonce, "commitment_hash": hash}, nil); err != nil {
		return answer, err
	}
	for range c.Calls {
		if answer, err = (Call{Method: c.Method, URL: c.URL, Body: c.Body}).send(ctx, nil, false); err != nil || answer.Code != "" {
			return answer, err
		}
	}
	return answer, askMediator(ctx, "/v1/challenge/commit", map[string]any{"challenge_nonce": issued.Nonce, "salt": salt, "strategy": plan}, nil)
}

// askMediator asks the mediator itself.
func askMediator(ctx context.Context, path string, ask, answer any) error {
	resp, raw, err := post(ctx, "http://"+proxy.InternalHost+path, nil, ask)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s is answered %s: %s", path, resp.Status, raw)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(raw, answer)
}

// scored plays the agent that takes a challenge and then calls the model so many times. It says what the node's score has of the session.
func (d *Deployment) scored(ctx context.Context, calls int) (string, error) {
	r, err := d.byWebhook(ctx, "POST", "http://"+proxy.InternalHost+"/v1/generate", "--body", `{"prompt":"What is a mediator?"}`, "--commit", d.Plain(), "--calls", strconv.Itoa(calls))
	if err != nil || r.Receipt == "" {
		return r.Outcome(), err
	}
	var said struct {
		Score autonomy.Claims `json:"score"`
	}
	closed := func(ctx context.Context) bool {
		err = admin.Get(ctx, d.node(), "/v1/score/"+evidence.HashToken(r.Receipt), &said)
		return err == nil && said.Score.Closed
	}
	if !eventually(ctx, closed) {
		return "no score of the whole session", err
	}
	challenge := said.Score.Signals.Challenge
	return fmt.Sprintf("calls scored: %d, challenges passed: %d of %d", said.Score.N, challenge.Passed, challenge.Issued), nil
}
