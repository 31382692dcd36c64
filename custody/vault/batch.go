package vault

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/custody"
)

// batcher requests the signatures of one key version. Callers that come during a request share the next one, like a
// database's group commit.
type batcher struct {
	key    *Key
	number int
	public ed25519.PublicKey

	mu      sync.Mutex // guards both
	waiting []*wanted
	busy    bool
}

type wanted struct {
	message []byte
	done    chan struct{} // closed with a result
	sig     []byte
	err     error
}

const (
	maxBatch   = 128
	maxWaiting = 4096
)

func (b *batcher) sign(ctx context.Context, message []byte) ([]byte, error) {
	w := &wanted{message: message, done: make(chan struct{})}
	if !b.add(w) {
		return nil, custody.Unavailable(nil, "%d signatures of the key %s wait for Vault already", maxWaiting,
			b.key.name)
	}
	select {
	case <-w.done:
		return w.sig, w.err
	case <-ctx.Done():
		return nil, custody.Unavailable(ctx.Err(), "the key %s did not sign in time", b.key.name)
	}
}

func (b *batcher) add(w *wanted) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxWaiting {
		return false
	}
	b.waiting = append(b.waiting, w)
	if !b.busy {
		b.busy = true
		go b.work()
	}
	return true
}

func (b *batcher) next() []*wanted {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	if n == 0 {
		b.busy, b.waiting = false, nil
	}
	return batch
}

func (b *batcher) work() {
	for batch := b.next(); len(batch) > 0; batch = b.next() {
		results, err := b.ask(batch)
		for i, w := range batch {
			if w.err = err; err == nil {
				w.sig, w.err = b.check(w.message, results[i])
			}
			close(w.done)
		}
	}
}

type result struct {
	Signature string `json:"signature"`
	Error     string `json:"error"`
}

func (b *batcher) ask(batch []*wanted) ([]result, error) {
	o := b.key.session.server.o
	ctx, cancel := context.WithTimeout(b.key.session.server.ctx, o.Timeout)
	defer cancel()
	input := make([]map[string]string, len(batch))
	for i, w := range batch {
		input[i] = map[string]string{"input": base64.StdEncoding.EncodeToString(w.message)}
	}
	secret, err := b.key.session.write(ctx, b.key.path("sign"),
		map[string]any{"key_version": b.number, "batch_input": input})
	b.key.session.signed(err)
	if err != nil {
		return nil, custody.Unavailable(err, "the key %s did not sign: %s", b.key.name, why(err))
	}
	var answer struct {
		Results []result `json:"batch_results"`
	}
	_ = decode(secret, &answer) // an unreadable answer has no results
	if len(answer.Results) != len(batch) {
		return nil, custody.Unavailable(nil, "Vault gave %d signatures of the key %s for %d messages",
			len(answer.Results), b.key.name, len(batch))
	}
	return answer.Results, nil
}

// check reads one signature ("vault:v<version>:<base64>") and verifies it.
func (b *batcher) check(message []byte, r result) ([]byte, error) {
	if r.Error != "" {
		return nil, custody.Unavailable(nil,
			"Vault does not sign with version %d of the key %s; is it older than min_encryption_version?", b.number,
			b.key.name)
	}
	text, ok := strings.CutPrefix(r.Signature, fmt.Sprintf("vault:v%d:", b.number))
	sig, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sig) != ed25519.SignatureSize || !ed25519.Verify(b.public, message, sig) {
		return nil, custody.Unavailable(nil, "Vault gave a wrong signature for version %d of the key %s", b.number,
			b.key.name)
	}
	return sig, nil
}
