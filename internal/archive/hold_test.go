package archive

func (r *Reader) Hold(most int) { r.most = most }
