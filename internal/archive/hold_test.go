package archive

func (r *Reader) Hold(most int) { r.most = most }

func (r *Reader) Most(records int) { r.records = records }

func (j *Judge) Most(records int) { j.most = records }
