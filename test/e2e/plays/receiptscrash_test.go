package plays

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// modelRule lets the agent call a model, which is observed.
const modelRule = `
egress:
  - name: model
    match: {url: "https://PLAIN/v1/chat/completions", methods: [POST]}
    observe: openai-chat
`

// receiptCrash is one play: the sidecar is killed at a point while an agent calls a model, or posts after such a call.
type receiptCrash struct {
	posts    bool // the crash is on the way of the post, and the call before has its receipt
	points   []string
	again    []string // points at which the next start is killed too
	outcomes []string // of the call on the way, of which its receipt has one; empty for no receipt at all
}

var indeterminate = []string{interaction.OutcomeIndeterminate}

var receiptCrashes = []receiptCrash{
	{points: []string{"ledger begun"}},
	{points: []string{"ledger written"}},
	{points: []string{"ledger committed"}, outcomes: indeterminate},
	{points: []string{"call open"}, outcomes: indeterminate},
	{points: []string{"connected"}, outcomes: indeterminate},
	{points: []string{"answered"}, outcomes: indeterminate},
	{points: []string{"relayed"}, outcomes: indeterminate},
	{points: []string{"receipt signed"}, outcomes: indeterminate},
	{points: []string{"receipt signed", "ledger begun"}, outcomes: indeterminate},
	{points: []string{"receipt signed", "ledger written"}, outcomes: indeterminate},
	{points: []string{"recorded"}, outcomes: []string{interaction.OutcomeIndeterminate, interaction.OutcomeNotMeasured}}, // with the record of the call, or after it
	{points: []string{"call open"}, again: []string{"receipt signed"}, outcomes: indeterminate},
	{points: []string{"call open"}, again: []string{"receipt signed", "receipt signed"}, outcomes: indeterminate},
	{posts: true, points: []string{"attest"}},
	{posts: true, points: []string{"proof", "ledger written"}},
	{posts: true, points: []string{"proof", "ledger committed"}, outcomes: indeterminate},
	{posts: true, points: []string{"consume"}, outcomes: indeterminate},
	{posts: true, points: []string{"answered"}, outcomes: indeterminate},
	{posts: true, points: []string{"relayed"}, outcomes: indeterminate},
	{posts: true, points: []string{"receipt signed"}, outcomes: indeterminate},
}

func (c receiptCrash) name() string {
	name := "call at "
	if c.posts {
		name = "post at "
	}
	return name + strings.Join(append(slices.Clone(c.points), c.again...), ", ")
}

// TestReceiptsCrash kills the sidecar at every step by which receipts are made, and starts it again. The chain of the session is whole then,
// every call that was open has a receipt that says so, and the chain is closed.
func TestReceiptsCrash(t *testing.T) {
	t.Parallel()
	binary := buildWithFailpoints(t)
	for store, dsn := range map[string]func() string{
		"file":     func() string { return "" },
		"database": func() string { return pgtest.Start(t).Database(t) },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r := newCrashRig(t, binary, dsn(), modelRule)
			for _, c := range receiptCrashes {
				t.Run(c.name(), func(t *testing.T) { r.playReceipts(t, c) })
			}
		})
	}
}

func (r *crashRig) playReceipts(t *testing.T, c receiptCrash) {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	event, err := r.DeliverRelease(ctx)
	check.Must(t, err)
	s, err := r.open(ctx, event)
	check.Must(t, err)
	agent, call := r.agentOf(t, s), "https://"+r.Plain()+"/v1/chat/completions"
	send := func(url, body string) {
		resp, err := agent.Post(url, "application/json", strings.NewReader(body))
		if err == nil { // what the agent learns is not what counts here
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	ask := `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	if c.posts {
		send(call, ask)
		r.waitForReceipts(t, s.Session, 1)
	}
	r.arm(t, "serve", c.points...)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		if c.posts {
			send("https://"+r.Plain()+"/posts/"+event, `{"a":1}`)
		} else {
			send(call, ask)
		}
	}()
	r.crashed(t, "serve")
	<-tried
	if len(c.again) > 0 {
		r.arm(t, "serve", c.again...)
		r.startToCrash(t)
	}
	r.start(t)

	want := len(c.outcomes)
	if want > 0 {
		want = 2 // the call, and the end
	}
	if c.posts {
		want = max(want+1, 2)
	}
	chain := r.waitForReceipts(t, s.Session, want)
	if len(chain) == 0 {
		return
	}
	end := chain[len(chain)-1]
	if end.Closing == nil || end.Closing.Reason != interaction.ClosedLost {
		t.Errorf("the chain does not end with the session's: %+v", end)
	}
	if len(c.outcomes) == 0 {
		return
	}
	if last := chain[len(chain)-2]; !slices.Contains(c.outcomes, last.Outcome) || (last.Post != nil) != c.posts {
		t.Errorf("the receipt of the call says %s, want %v: %+v", last.Outcome, c.outcomes, last)
	}
}

// startToCrash starts all processes, of which the sidecar is killed before or soon after it is ready.
func (r *crashRig) startToCrash(t *testing.T) {
	t.Helper()
	r.launch(t)
	r.crashed(t, "serve")
}

// waitForReceipts waits until a session has so many receipts, and verifies its chain.
func (r *crashRig) waitForReceipts(t *testing.T, session string, want int) (chain []interaction.Receipt) {
	t.Helper()
	var stored []ledger.Receipt
	for deadline := time.Now().Add(kit.Patience); ; time.Sleep(10 * time.Millisecond) {
		if stored = r.stored(t, session); len(stored) >= want {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("session %s has %d receipts, want %d", session, len(stored), want)
		}
	}
	if len(stored) != want {
		t.Errorf("session %s has %d receipts, want %d", session, len(stored), want)
	}
	return r.verified(t, session, stored)
}

// stored returns the receipts of a session that the ledger has.
func (r *crashRig) stored(t *testing.T, session string) []ledger.Receipt {
	t.Helper()
	var from interface {
		Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
		io.Closer
	}
	var err error
	if r.dsn == "" {
		from, err = sqlite.OpenCopy(t.Context(), filepath.Join(r.Dir, "state", "ledger.db"))
	} else {
		from, err = postgres.Open(t.Context(), r.dsn, postgres.Options{Now: time.Now, Instance: "the test"})
	}
	check.Must(t, err)
	stored, err := from.Chain(t.Context(), session, 1, ledger.MaxChain)
	check.Must(t, errors.Join(err, from.Close()))
	return stored
}

// verified verifies the chain of a session.
func (r *crashRig) verified(t *testing.T, session string, stored []ledger.Receipt) (chain []interaction.Receipt) {
	t.Helper()
	open, before := r.opener(t), ""
	own, err := r.Agent()
	check.Must(t, err)
	for i, one := range stored {
		claims, err := evidence.UnverifiedClaims(interaction.Kind, one.Token)
		check.Must(t, err)
		if claims.Owner == own.Owner { // those before the last start are of keys, and of roots, that are gone with their processes
			_, err := open(one.Token, claims)
			check.Must(t, err)
		}
		if link := (interaction.ChainLink{PreviousReceiptHash: before, SessionID: session, SequenceNumber: int64(i + 1)}); claims.Chain != link {
			t.Errorf("receipt %d has the place %+v, want %+v", i+1, claims.Chain, link)
		}
		chain, before = append(chain, claims), evidence.HashToken(one.Token)
	}
	return chain
}

// opener returns what opens the receipts of the deployment as it was started last.
func (r *crashRig) opener(t *testing.T) interaction.Opener {
	t.Helper()
	c, err := config.LoadSidecar(filepath.Join(r.Dir, devstack.SidecarFile))
	check.Must(t, err)
	roots, err := config.ReadRoots(c.Trust.Registry, c.Trust.Auditor)
	check.Must(t, err)
	bundle, _, err := config.ReadBundle(c.Trust.Bundle)
	check.Must(t, err)
	_, strict, err := config.ReadAuditedManifest(c.Manifest)
	check.Must(t, err)
	past, err := evidence.NewPastTrust(roots, bundle, evidence.History{}, strict.Signers)
	check.Must(t, err)
	return interaction.Past(past, strict.Interaction, time.Now())
}
