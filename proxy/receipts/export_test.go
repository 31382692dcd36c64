package receipts

import "github.com/actionproof/mediator/evidence"

// Pass has the chain stand after so many receipts that nobody has made.
func (c *Chain) Pass(receipts int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number, c.head = receipts, evidence.HashToken("")
}

// Remembered returns how many bytes are taken for what is remembered of all sessions, and how many chains are in the
// keeper's care.
func (k *Keeper) Remembered() (bytes int64, chains int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory.Taken(), len(k.active)
}
