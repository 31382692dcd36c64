package archive

import (
	"cmp"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

const answerCheck = "key of the API's answer"

func (t *Trust) checkAnswer(r ledger.Record) error {
	id, host := r.Answer.KeyID, strings.TrimSuffix(r.Host, ":443")
	key := cmp.Or(string(t.AnswerKeys[host][id]), string(t.AnswerKeys[""][id]))
	if key == "" || key != string(r.Answer.PublicKey) {
		return refusal.New("record_mismatch", "the key of the API's answer, %.80q, is not in --api-keys for %.80s", id,
			host)
	}
	return nil
}

// Word names the party that vouches for the outcome of a verified record.
func (v Verdict) Word(r ledger.Record) string {
	pinned := func(k ledger.Check) bool { return k.Name == answerCheck && k.OK }
	if r.Answer != nil && !slices.ContainsFunc(v.Checks, pinned) {
		return "signed by the key " + r.Answer.KeyID + "; --api-keys would show whether that is the API's"
	}
	return r.Word()
}
