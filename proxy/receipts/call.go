package receipts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/cond"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Call is a call that gets a receipt. A nil Call ignores every method.
type Call struct {
	chain   *Chain
	id      string // of its record
	started time.Time

	// The chain's mutex guards these, except the claims: they belong to the call's handler until End, then to the
	// signing goroutine.
	claims interaction.Receipt
	result func(*Call) // completes the claims; nil if they are complete
	ending bool        // its answer has ended
	over   bool        // End was called
	known  bool        // the ledger has it as open
	// a later model call ended first
	overtaken bool
	made      bool // the ledger has its receipt

	signed evidence.Opened[interaction.Receipt] // the signing goroutine's until made is set
}

func (call *Call) row(id string, started time.Time) (ledger.OpenCall, error) {
	draft, err := json.Marshal(call.claims)
	return ledger.OpenCall{ID: id, Session: call.chain.session, Started: started, Draft: string(draft)}, err
}

// If Send fails, do not send the call.
func (call *Call) Send(ctx context.Context) error {
	if call == nil {
		return nil
	}
	rows, err := call.Open()
	if err == nil {
		err = call.chain.keeper.o.Ledger.OpenCalls(ctx, rows...)
	}
	if err != nil {
		call.Drop()
		return err
	}
	call.Sent()
	failpoint.Reach("call open")
	return nil
}

// Open returns what to store before the call is sent, for a caller that stores it with other things. The chain then
// stays open until the call ends or is dropped. Posts name the call only after [Call.Sent].
func (call *Call) Open() ([]ledger.OpenCall, error) {
	if call == nil {
		return nil, nil
	}
	c := call.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(); err != nil {
		return nil, err
	}
	if err := call.meet(); err != nil {
		return nil, err
	}
	c.open[call.id] = call
	return c.opening(call)
}

// Sent notes that Open's result is stored.
func (call *Call) Sent() {
	if call == nil {
		return
	}
	call.chain.mu.Lock()
	defer call.chain.mu.Unlock()
	call.known, call.chain.known = true, true
}

// Drop notes that the call was not sent and nothing of it was stored.
func (call *Call) Drop() {
	if call == nil {
		return
	}
	c := call.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, call.id)
	delete(c.memory.asking, call)
	c.changed.Broadcast()
	c.work() // the session's end may have waited for it
}

// Ending notes that the answer has ended, so that the call will soon.
func (call *Call) Ending() {
	if call == nil {
		return
	}
	call.chain.mu.Lock()
	defer call.chain.mu.Unlock()
	call.ending = true
}

func (call *Call) end(remember func(), result func(*Call)) {
	c := call.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.over {
		return
	}
	call.over, call.result = true, result
	remember()
	delete(c.open, call.id)
	c.ended = append(c.ended, call)
	c.changed.Broadcast()
	c.work()
}

// Receipt waits until the ended call's receipt is stored.
func (call *Call) Receipt(ctx context.Context) (string, error) {
	if call == nil {
		return "", refusal.New("custody_unavailable", "this call gets no receipt")
	}
	c := call.chain
	c.mu.Lock()
	err := cond.Wait(ctx, c.changed, func() bool { return call.made || c.failure != nil })
	if err != nil || !call.made {
		err = c.unsigned()
		c.mu.Unlock()
		return "", err
	}
	token := call.signed.Token()
	c.mu.Unlock()
	return token, c.keeper.settle(ctx, c)
}
