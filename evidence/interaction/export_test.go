package interaction

// Fill makes the chain as long as a chain can be, as signing so many receipts would take long.
func (c *Chain) Fill() { c.hashes = make([]string, MaxReceipts) }
