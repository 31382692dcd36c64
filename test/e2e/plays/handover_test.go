package plays

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	nodeclient "github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const generateRule = `
egress:
  - name: model
    match: {url: "https://PLAIN/v1/chat/completions", methods: [POST]}
    observe: openai-chat
    generate: {models: [m]}
`

type handoverRig struct {
	*crashRig
	node    *kit.NodeRig
	agent   kit.Agent
	session string
}

func newHandoverRig(t *testing.T) *handoverRig {
	t.Helper()
	r := &handoverRig{crashRig: prepareCrashRig(t, kit.Self(t), "", generateRule), node: kit.NewNode(t, "")}
	check.Must(t, os.Remove(r.In(devstack.ReputationFile)))
	kit.Edit(t, r.In(devstack.SidecarFile), "{unix: run/reputation.sock, audience: mediator-reputation}",
		"{unix: "+r.node.Socket()+", audience: node}")
	for old, new := range map[string]string{
		"registry: owner/registry.jwk": "registry: " + r.In(devstack.RegistryFile),
		"bundle: owner/bundle.json":    "bundle: " + r.In(devstack.BundleFile),
		"[api.openai.com]":             `["` + r.Plain() + `"]`,
	} {
		kit.Edit(t, r.node.At("one.yaml"), old, new)
	}
	said := 0
	r.holdWith(func(req *http.Request, w http.ResponseWriter) {
		_, _ = io.Copy(io.Discard, req.Body)
		said++ // the rig's mutex is not held, but the agent makes one call after the other
		kit.AnswerJSON(w, fmt.Sprintf(`{"id":"c%d","model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
			`"content":"This is answer %[1]d."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":6}}`,
			said))
	})
	r.startUntilEnd(t)
	r.agent = r.enter(t)
	r.session = r.agent.Session.Session
	return r
}

func (r *handoverRig) ask(t *testing.T, method, path, body string, into any) (code string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://mediator.internal"+path, strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.agent.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		var d problem.Details
		check.Must(t, json.Unmarshal(raw, &d))
		return d.Code
	}
	if into != nil {
		check.Must(t, json.Unmarshal(raw, into))
	}
	return ""
}

func (r *handoverRig) wantAsked(t *testing.T, path, body, want string) {
	t.Helper()
	if code := r.ask(t, http.MethodPost, path, body, nil); code != want {
		t.Fatalf("%s with %s: got %q, want %q", path, body, code, want)
	}
}

func (r *handoverRig) calls(t *testing.T, n int) {
	t.Helper()
	for range n {
		if o := callModel(r.agent); o.Code != "" {
			t.Fatalf("the model's answer is %+v", o)
		}
	}
}

func (r *handoverRig) end(t *testing.T) {
	t.Helper()
	check.Must(t, admin.Call(t.Context(), r.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+r.session, nil, nil))
}

func (r *handoverRig) delivery(t *testing.T) (s nodeclient.Status) {
	t.Helper()
	check.Must(t, admin.Get(t.Context(), r.Stack.Admin(), "/v1/delivery", &s))
	return s
}

// arrived waits until the node has as many receipts as the session made. Its score has to cover all of them.
func (r *handoverRig) arrived(t *testing.T, want int) (stored []interaction.Receipt, score autonomy.Claims) {
	t.Helper()
	stored = r.waitForReceipts(t, r.session, want)
	file, err := sqlite.OpenCopy(t.Context(), r.In("state/ledger.db"))
	check.Must(t, err)
	last, err := file.LastReceipt(t.Context(), r.session)
	check.Must(t, errors.Join(err, file.Close()))
	kit.Until(t, "the receipts at the node", func() bool {
		s := r.delivery(t)
		return s.Undelivered == 0 && s.Away == "" && s.Refused == 0
	})
	score = r.node.Scored(t, last.Token)
	if score.HeadNumber != int64(want) || score.HeadHash != evidence.HashToken(last.Token) {
		t.Errorf("the node has the receipts up to %d (%s), want %d (%s)", score.HeadNumber, score.HeadHash, want,
			evidence.HashToken(last.Token))
	}
	return stored, score
}

// While the node is away or killed, an agent passes a challenge. In the end the node has each receipt once and in
// order.
func TestHandover(t *testing.T) {
	t.Parallel()
	r := newHandoverRig(t)
	r.calls(t, 3)
	kit.Until(t, "the sidecar to see that the node is away", func() bool {
		s := r.delivery(t)
		return s.Away != "" && s.Undelivered == 3
	})
	r.wantAsked(t, "/v1/challenge/issue", `{}`, "node_unavailable")
	kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Refused("3 not handed over")
	r.node.Start(t)
	_, before := r.arrived(t, 3)
	var begun accrual.Claims
	if code := r.ask(t, "GET", "/v1/reputation/"+before.Owner+":"+before.Agent, ``, &begun); code != "" ||
		begun.Tier != accrual.TierNew {
		t.Fatalf("%q, %+v", code, begun)
	}

	var issued struct {
		Nonce  string `json:"challenge_nonce"`
		Probes []struct{ ID, Prompt string }
	}
	if code := r.ask(t, "POST", "/v1/challenge/issue", `{}`, &issued); code != "" || issued.Nonce == "" {
		t.Fatalf("%q, %+v", code, issued)
	}
	const salt = "AAAAAAAAAAAAAAAAAAAAAA"
	plan := strategy.Strategy{Tools: []string{}, Hosts: []string{r.Plain()}, Model: "m",
		Calls: strategy.Calls{Min: 1, Max: 1000}}
	hash, err := strategy.Commitment(issued.Nonce, salt, plan)
	check.Must(t, err)
	commitment := fmt.Sprintf(`{"challenge_nonce":%q,"commitment_hash":%q}`, issued.Nonce, hash)
	r.wantAsked(t, "/v1/challenge/commit", commitment, "")
	r.calls(t, 2)
	_ = r.node.End(t, syscall.SIGKILL)
	reveal, err := json.Marshal(map[string]any{"challenge_nonce": issued.Nonce, "salt": salt, "strategy": plan})
	check.Must(t, err)
	r.wantAsked(t, "/v1/challenge/commit", string(reveal), "node_unavailable")
	r.calls(t, 200)
	kit.Until(t, "the receipts of all calls to be kept for the node", func() bool {
		return r.delivery(t).Undelivered >= 200
	})
	r.node.Start(t)
	r.arrived(t, 205)
	var killed sync.WaitGroup
	killed.Go(func() { _ = r.node.End(t, syscall.SIGKILL) }) // while receipts come in
	r.calls(t, 5)
	killed.Wait()
	r.node.Start(t)
	chain, score := r.arrived(t, 210)
	if last := chain[209].Challenge; last == nil || last.ChallengeNonce != issued.Nonce || last.CommitmentHash != hash ||
		last.CommitmentRevealed || score.Closed {
		t.Errorf("the last receipt tells of %+v", last)
	}

	r.wantAsked(t, "/v1/challenge/commit", string(reveal), "")
	r.end(t)
	chain, score = r.arrived(t, 211)
	if end := chain[210]; end.Closing == nil || end.Challenge == nil || !end.Challenge.CommitmentRevealed {
		t.Errorf("the end tells of %+v", end.Challenge)
	}
	if c := score.Signals.Challenge; !score.Closed || c.Issued != 1 || c.Passed != 1 {
		t.Errorf("the score says of the challenge %+v", c)
	}
	_ = r.node.End(t, syscall.SIGKILL) // it may or may not have entered the session
	r.node.Start(t)
	kit.Until(t, "the session to count", func() bool {
		var known accrual.Claims
		id := accrual.Agent{Owner: score.Owner, Subject: score.Agent}.String()
		if err := admin.Get(t.Context(), "unix:"+r.node.Socket(), "/v1/reputation/"+id, &known); err != nil {
			return false
		}
		return known.Log.Entries == 1 && known.TotalInteractions == 1 && known.CurrentScore == accrual.Round(score.Composite)
	})
}

// A restored node learns of an ended session again, as docs/operations/reputation.md says.
func TestHandoverAnew(t *testing.T) {
	t.Parallel()
	r := newHandoverRig(t)
	r.node.Start(t)
	r.calls(t, 3)
	r.end(t)
	chain, _ := r.arrived(t, 4)
	check.Must(t, r.node.End(t, syscall.SIGTERM))
	files, err := filepath.Glob(r.node.At("one/reputation.db*"))
	check.Must(t, err)
	for _, file := range files {
		check.Must(t, os.Remove(file))
	}
	r.node.Start(t)
	path := "/v1/sessions/" + r.session + "/score"
	if status := r.node.Get(t, path, nil); status != http.StatusNotFound {
		t.Fatalf("a node whose store was removed knows the session: %d", status)
	}
	r.stop(t)
	db, err := sql.Open("sqlite", r.In("state/ledger.db"))
	check.Must(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO deliveries (session, number, due, refused)
		SELECT session, 0, 0, '' FROM receipts WHERE number = 1
		ON CONFLICT (session) DO UPDATE SET number = 0, due = 0, refused = ''`)
	check.Must(t, errors.Join(err, db.Close()))
	r.start(t)
	kit.Until(t, "the node to know the session again", func() bool { return r.node.Get(t, path, nil) == http.StatusOK })
	if _, score := r.arrived(t, len(chain)); !score.Closed {
		t.Errorf("the score is of %+v", score)
	}
}
