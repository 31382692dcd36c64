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
	claims C
}

// Memory keeps the tokens that were found authentic last, so that a process takes each apart and verifies its signature once, however many
// of its parts ask. What depends on the time, the trust or the policy is never kept: it is judged each time. Its zero value is empty. It is safe for
// concurrent use.
type Memory struct {
	mu         sync.Mutex     // guards the two
	young, old map[string]any // *authentic[C] by token
}

// maxRemembered bounds the tokens of one of the two generations. A post has nine, and those of a post are asked for within its time.
const maxRemembered = 1024

func (m *Memory) get(token string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.young[token]; ok {
		return a
	}
	return m.old[token]
}

func (m *Memory) put(token string, a any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxRemembered {
		m.old, m.young = m.young, make(map[string]any, maxRemembered)
	}
	m.young[token] = a
}

// Signed notes an artifact that this process has just had signed itself: a [Verifier] with this memory then need not verify the signature.
// The custody answers for its having been made by the private key of public; claims are those that were signed, and change no more.
// Whether the key is certified, and everything else, is judged as of any other artifact.
func Signed[C any](m *Memory, k Kind[C], token, kid string, public ed25519.PublicKey, claims C) {
	m.put(token, &authentic[C]{k.Typ, kid, public, claims})
}
