package autonomy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
)

// owner is how all receipts name the owner of the sidecar.
var owner = interaction.Owner(key.Public())

// key signs all receipts. It is public, so its signatures prove nothing.
var key = func() custody.Version {
	seed := sha256.Sum256([]byte("synthetic receipts"))
	private := ed25519.NewKeyFromSeed(seed[:])
	return custody.NewVersion("synthetic-receipts", 1, private.Public().(ed25519.PublicKey),
		func(_ context.Context, message []byte) ([]byte, error) {
			return ed25519.Sign(private, message), nil
		})
}()

// sidecar measures one session with the mediator's own packages inference and receipts.
type sidecar struct {
	clock   atomic.Int64 // Unix nanoseconds
	id      string
	secret  [inference.MinKey]byte
	keeper  *receipts.Keeper
	chain   *receipts.Chain
	calls   int
	tokens  []string // of the receipts, in their order
	signed  map[string]evidence.Opened[interaction.Receipt]
	pending func() *interaction.ChallengeRef // the open challenge
}

// newSidecar opens a session at a time.
func newSidecar(id, agent string, opened time.Time) (*sidecar, error) {
	s := &sidecar{id: id, secret: sha256.Sum256([]byte("content " + id)),
		signed: make(map[string]evidence.Opened[interaction.Receipt])}
	s.clock.Store(opened.UnixNano())
	s.pending = func() *interaction.ChallengeRef { return nil }
	var err error
	s.keeper, err = receipts.New(context.Background(),
		receipts.Options{Issuer: issuer{s}, Ledger: nowhere{s}, Owner: owner, Agent: agent, Runtime: "worker-1", Now: s.now,
			Log: zap.NewNop()})
	s.chain = receipts.NewChain(id, "evt_"+id, opened, s.secret)
	return s, err
}

func (s *sidecar) now() time.Time { return time.Unix(0, s.clock.Load()).UTC() }

// until puts the clock on. It never falls.
func (s *sidecar) until(at time.Time) { s.clock.Store(max(s.clock.Load(), at.UnixNano())) }

// record begins the record of a call.
func (s *sidecar) record(flow, host string) ledger.Record {
	s.calls++
	return ledger.Record{
		ID: fmt.Sprintf("post_%s_%04d", s.id, s.calls), Flow: flow, Session: s.id, Rule: flow, Host: host,
		State:   ledger.StateForwarding,
		Started: s.now(), Manifest: hashOf("manifest"),
	}
}

func hashOf(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}

// settled waits for the receipt of an ended call.
func settled(call *receipts.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := call.Receipt(ctx)
	return err
}

// relay is a relayed call of an MCP tool.
func (s *sidecar) relay(host, tool, arguments, result string) {
	s.chain.Count(int64(len(arguments))+90, true)
	s.keeper.Relay(s.chain,
		receipts.Relayed{Host: host, Tool: tool, Arguments: []byte(arguments),
			Gave: s.chain.Values([]byte(result))})
}

// other is a call that is not read, such as a web page.
func (s *sidecar) other(sent int) { s.chain.Count(int64(sent), false) }

// post is a post.
func (s *sidecar) post(body string, takes time.Duration, status int) error {
	r := s.record("post", "api.example.com:443")
	r.ContentHash, r.BindingHash = hashOf(body), hashOf(body+r.ID)
	r.Artifacts = []ledger.Artifact{{Name: "grant", Token: hashOf("grant")},
		{Name: "sessionReceipt", Token: hashOf("session")}}
	call, err := s.keeper.Post(s.chain, receipts.PostRequest{Record: r, Body: strings.NewReader(body)})
	if err == nil {
		_, err = call.Open()
	}
	if err != nil {
		return err
	}
	call.Sent()
	s.until(s.now().Add(takes))
	s.chain.Count(int64(len(body)), true)
	r.State, r.Status = ledger.StateForwarded, status
	call.EndPost(r, s.now())
	return settled(call)
}

// close ends the session and returns its verified receipts.
func (s *sidecar) close() ([]interaction.Receipt, error) {
	s.chain.Close(interaction.ClosedEnded)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.keeper.Close(ctx)
	chain := interaction.NewChain(func(token string, _ interaction.Receipt) (evidence.Opened[interaction.Receipt], error) {
		return s.signed[token], nil // the signature is this process's own
	}, interaction.Expected{Owner: owner, Session: s.id})
	all := make([]interaction.Receipt, 0, len(s.tokens))
	for _, token := range s.tokens {
		r, err := chain.Add(token)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Claims())
	}
	if !chain.Closed() {
		return nil, errors.New("autonomy: the chain of a session has no end")
	}
	return all, nil
}

// issuer signs the receipts of a session.
type issuer struct{ s *sidecar }

// Issue stamps and signs a receipt. A model call names the open challenge.
func (i issuer) Issue(ctx context.Context, c interaction.Receipt) (evidence.Opened[interaction.Receipt], error) {
	if c.Challenge = nil; c.Model != nil {
		if c.Challenge = i.s.pending(); c.Challenge != nil {
			c.ActionType = interaction.ActionChallengeResponse
			c.Observed = interaction.ObservedOf(c)
		}
	}
	now := i.s.now().Unix()
	interaction.Kind.Stamp(&c, evidence.Registered{
		Audience: "synthetic", Issuer: "synthetic-sidecar", ID: fmt.Sprintf("%s-%d", i.s.id, c.Chain.SequenceNumber),
		IssuedAt: now, Expires: now + int64(interaction.Lifetime/time.Second),
	}, evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
	draft, err := evidence.Prepare(key, interaction.Kind, c)
	if err != nil {
		return evidence.Opened[interaction.Receipt]{}, err
	}
	signed, err := draft.Sign(ctx)
	i.s.signed[signed.Token()] = signed
	return signed, err
}

// nowhere is a ledger that keeps only the session's receipts.
type nowhere struct{ s *sidecar }

// OpenCalls keeps nothing: no session here outlives its process.
func (nowhere) OpenCalls(context.Context, ...ledger.OpenCall) error { return nil }

// LeftOpen returns nothing.
func (nowhere) LeftOpen(context.Context) ([]ledger.OpenCall, error) { return nil, nil }

// LastReceipt finds none.
func (nowhere) LastReceipt(context.Context, string) (ledger.Receipt, error) {
	return ledger.Receipt{}, ledger.ErrNotFound
}

// AddReceiptLater keeps a receipt. One goroutine at a time calls it.
func (n nowhere) AddReceiptLater(r ledger.Receipt) error {
	n.s.tokens = append(n.s.tokens, r.Token)
	return nil
}

// SettleReceipts has nothing to wait for.
func (nowhere) SettleReceipts(context.Context, string) error { return nil }
