package evidence

import (
	"sync"

	"github.com/cloudflare/circl/sign/ed25519"
)

// authentic is a token whose form and signature hold, taken apart.
type authentic[C any] struct {
	typ    string
	kid    string
	public ed25519.PublicKey // verifies the signature
	claims *C                // which nobody changes
}

// Memory keeps the tokens that were found authentic until they are asked for again, so that a process takes each apart and verifies its
// signature once: it is opened as it comes in, or signed, and once more with the chain that it belongs to. What depends on the time, the trust or the
// policy is never kept: it is judged each time. Its zero value is empty; nil keeps nothing. It is safe for concurrent use.
type Memory struct {
	mu         sync.Mutex     // guards the two
	young, old map[string]any // *authentic[C] by token
}

// maxRemembered bounds the tokens of one of the two generations: what a refused post has left is never asked for. A post has nine.
const maxRemembered = 1024

// take returns what was put with this token, once.
func (m *Memory) take(token string) any {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, generation := range []map[string]any{m.young, m.old} {
		if a, ok := generation[token]; ok {
			delete(generation, token)
			return a
		}
	}
	return nil
}

func (m *Memory) put(token string, a any) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxRemembered {
		m.old, m.young = m.young, make(map[string]any)
	}
	m.young[token] = a
}

// Signed notes an artifact that this process has just had signed itself: a [Verifier] with this memory then need not verify the signature.
// The custody answers for its having been made by the private key of public; claims are those that were signed, and change no more.
// Whether the key is certified, and everything else, is judged as of any other artifact.
func Signed[C any](m *Memory, k Kind[C], token, kid string, public ed25519.PublicKey, claims C) {
	m.put(token, &authentic[C]{k.Typ, kid, public, &claims})
}
