package receipts

// Remembered returns how many bytes are taken for what is remembered of all sessions, and how many chains are in the keeper's care.
func (k *Keeper) Remembered() (bytes int64, chains int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory.Load(), len(k.active)
}
