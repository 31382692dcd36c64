package registrar

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
)

// nonces makes nonces that only this process accepts, each once: no database can bring one back.
type nonces struct {
	key [32]byte

	mu    sync.Mutex           // guards spent
	spent map[string]time.Time // until when each would count
}

// MaxNonces bounds the used nonces that are remembered. nonceAge is the life of a nonce.
const MaxNonces, nonceAge = 10_000, 2 * time.Minute

func newNonces() *nonces {
	n := &nonces{spent: make(map[string]time.Time)}
	_, _ = rand.Read(n.key[:]) // never fails; see evidence.NewID
	return n
}

const nonceBody = 8 + 16 // its end and random bytes, before the HMAC

func (n *nonces) seal(body []byte) []byte {
	mac := hmac.New(sha256.New, n.key[:])
	mac.Write(body)
	return mac.Sum(body[:nonceBody:nonceBody])
}

func (n *nonces) next(now time.Time) string {
	var body [nonceBody]byte
	_, _ = rand.Read(body[8:])
	binary.BigEndian.PutUint64(body[:8], uint64(now.Add(nonceAge).Unix())) //nolint:gosec // a time after 1970
	return base64.RawURLEncoding.EncodeToString(n.seal(body[:]))
}

// spend refuses a nonce that counts no more. One of another replica is no replay: its caller asks again.
func (n *nonces) spend(nonce, by string, now time.Time) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(raw) != nonceBody+sha256.Size || !hmac.Equal(n.seal(raw[:nonceBody]), raw) {
		return refusal.New("process_unavailable",
			"the nonce of %s comes from another registrar: ask this registrar for a new nonce",
			by)
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0) //nolint:gosec // of next
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, used := n.spent[nonce]; used || !now.Before(until) {
		return refuse("replay", "possession_unproven", "the nonce of %s was used before, or is older than %s", by,
			nonceAge)
	}
	if len(n.spent) >= MaxNonces {
		for old, ends := range n.spent {
			if !now.Before(ends) {
				delete(n.spent, old)
			}
		}
	}
	if len(n.spent) >= MaxNonces {
		return refusal.New("overloaded", "more than %d nonces were used within %s", MaxNonces, nonceAge)
	}
	n.spent[nonce] = until
	return nil
}
