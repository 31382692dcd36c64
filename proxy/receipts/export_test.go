package receipts

import "github.com/actionproof/mediator/evidence"

// Pass sets the number of receipts in the chain.
func (c *Chain) Pass(receipts int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number, c.head = receipts, evidence.HashToken("")
}

// Remembered returns the reserved memory in bytes, and the number of active chains.
func (k *Keeper) Remembered() (bytes int64, chains int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory.Taken(), len(k.active)
}
