package inference

// ReadAnswer reads an answer to r that is one JSON text. said gets each piece of text of the first choice. ok reports
// whether the answer follows its API. For key see [Read].
func ReadAnswer(r *Request, body, key []byte, said func(k Kind, text string)) (in Interaction, ok bool) {
	in.Request = r
	t := tally{in: &in, key: key, said: said}
	ok = readWhole(r.Dialect.answer(), &t, body)
	t.conclude(ReasonNone)
	return in, ok
}
