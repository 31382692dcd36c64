package archive

// Hold lowers how many bytes of receipts a reader holds.
func (r *Reader) Hold(most int) { r.most = most }
