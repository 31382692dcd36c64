package plays

import (
	"context"
	"errors"
	"io"
	"net/http"
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
)

const modelRule = `
egress:
  - name: model
    match: {url: "https://PLAIN/v1/chat/completions", methods: [POST]}
    observe: openai-chat
`

func callModel(a kit.Agent) kit.Outcome {
	return a.Call(http.MethodPost, "/v1/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
}

// receiptCrash is one play: the sidecar is killed at a point while an agent calls a model, or posts after such a call.
type receiptCrash struct {
	posts    bool // the crash is on the way of the post, after a call that has its receipt
	points   []string
	again    []string // points at which the next start is killed too
	outcomes []string // the receipt of the interrupted call has one of these; empty if it has no receipt
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
	// The receipt is stored with the record of the call, or after it.
	{points: []string{"recorded"}, outcomes: []string{interaction.OutcomeIndeterminate, interaction.OutcomeNotMeasured}},
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
	kind := map[bool]string{false: "call at ", true: "post at "}
	return kind[c.posts] + strings.Join(slices.Concat(c.points, c.again), ", ")
}

// TestReceiptsCrash kills the sidecar at every step that makes receipts, and starts it again. Then the chain of the
// session is complete and closed, and every call that was open has a receipt that says so.
func TestReceiptsCrash(t *testing.T) {
	t.Parallel()
	binary := kit.Program(t, "failpoint")
	for store, dsn := range map[string]func() string{
		"file":     func() string { return "" },
		"database": func() string { return kit.Database(t) },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			r := newCrashRig(t, binary, dsn(), modelRule)
			for i, c := range receiptCrashes {
				if store == "file" || kit.Long() || i%4 == 0 { // the long form plays all of them on both
					t.Run(c.name(), func(t *testing.T) { r.playReceipts(t, c) })
				}
			}
		})
	}
}

func (r *crashRig) playReceipts(t *testing.T, c receiptCrash) {
	agent := r.enter(t)
	session := agent.Session.Session
	if c.posts {
		callModel(agent)
		r.waitForReceipts(t, session, 1)
	}
	r.arm(t, "serve", c.points...)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		if c.posts {
			post(agent, "/posts/"+agent.Event)
		} else {
			callModel(agent)
		}
	}()
	r.crashed(t, "serve")
	<-tried
	if len(c.again) > 0 {
		r.arm(t, "serve", c.again...)
		r.launch(t)
		r.crashed(t, "serve") // before or soon after it is ready
	}
	r.start(t)

	want := 0
	if len(c.outcomes) > 0 {
		want = 2 // the call, and the end
	}
	if c.posts {
		want = max(want+1, 2)
	}
	chain := r.waitForReceipts(t, session, want)
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

// waitForReceipts waits until a session has so many receipts, and verifies its chain.
func (r *crashRig) waitForReceipts(t *testing.T, session string, want int) (chain []interaction.Receipt) {
	t.Helper()
	var stored []ledger.Receipt
	if kit.Eventually(func() bool { stored = r.stored(t, session); return len(stored) >= want }); len(stored) != want {
		t.Fatalf("session %s has %d receipts, want %d", session, len(stored), want)
	}
	return r.verified(t, session, stored)
}

func (r *crashRig) stored(t *testing.T, session string) []ledger.Receipt {
	t.Helper()
	var from interface {
		Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
		io.Closer
	}
	var err error
	if r.dsn == "" {
		from, err = sqlite.OpenCopy(t.Context(), r.In("state/ledger.db"))
	} else {
		from, err = postgres.Open(t.Context(), r.dsn, postgres.Options{Now: time.Now, Instance: "the test"})
	}
	check.Must(t, err)
	stored, err := from.Chain(t.Context(), session, 1, ledger.MaxChain)
	check.Must(t, errors.Join(err, from.Close()))
	return stored
}

func (r *crashRig) verified(t *testing.T, session string, stored []ledger.Receipt) (chain []interaction.Receipt) {
	t.Helper()
	open, before := r.opener(t), ""
	own, err := r.Agent()
	check.Must(t, err)
	for i, one := range stored {
		claims, err := evidence.UnverifiedClaims(interaction.Kind, one.Token)
		check.Must(t, err)
		if claims.Owner == own.Owner { // the keys and roots of receipts from before the last start are gone
			_, err := open(one.Token, claims)
			check.Must(t, err)
		}
		link := interaction.ChainLink{PreviousReceiptHash: before, SessionID: session, SequenceNumber: int64(i + 1)}
		if claims.Chain != link {
			t.Errorf("receipt %d has the place %+v, want %+v", i+1, claims.Chain, link)
		}
		chain, before = append(chain, claims), evidence.HashToken(one.Token)
	}
	return chain
}

func (r *crashRig) opener(t *testing.T) interaction.Opener {
	t.Helper()
	c, err := config.LoadSidecar(r.In(devstack.SidecarFile))
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
