package chain

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
)

type verifiedScore struct {
	Session                string  `json:"session"`
	Agent                  string  `json:"agent"`
	Owner                  string  `json:"owner"`
	Appraiser              string  `json:"appraiser"`
	Score                  float64 `json:"score"`
	Band                   string  `json:"band"`
	Number                 int64   `json:"number"`   // of the last receipt that counts
	Closed                 bool    `json:"closed"`   // it closes the session
	Computed               bool    `json:"computed"` // again from the receipts, with the same result
	NotComputed            string  `json:"notComputed,omitempty"`
	Probabilistic          bool    `json:"probabilistic"`
	NonHumanIdentityProven bool    `json:"nonHumanIdentityProven"` // never
}

func readScore(path string) (archive.Score, error) {
	raw, err := files.ReadUpTo(path, files.MaxInput)
	if err != nil {
		return archive.Score{}, err
	}
	s, ok := archive.ParseScore(raw)
	if !ok {
		return s, refusal.New("evidence_malformed", "%s holds no score: write it with mediator reputation show score",
			path)
	}
	return s, nil
}

// score verifies a score. If the session's receipts are here, in a file at path, it verifies them too, and computes the
// score again.
func (by *verifier) score(s archive.Score, receipts iter.Seq2[string, error], path string) error {
	a, err := by.nodes()
	if err != nil {
		return err
	}
	claims, err := a.JudgeScore(s, time.Now())
	if err != nil {
		return err
	}
	if receipts == nil {
		return printScore(by.c, claims, "the receipts are not here: give their file, and this one as --score")
	}
	session := autonomy.NewSession(claims.ModelHosts)
	j, err := a.JudgeReceipts(receipts, time.Now(), func(hash string, r *interaction.Receipt) {
		if session.Len() < claims.HeadNumber {
			session.Add(hash, r)
		}
	})
	switch {
	case err != nil:
		return err
	case !j.Chain:
		return cli.Usagef("%s does not begin with the first receipt of the session, so its score cannot be computed",
			path)
	}
	if err := archive.ScoreOf(claims, session); err != nil {
		return err
	}
	why := s.NotComputed(claims)
	if why == "" {
		err = s.Agrees(claims, session)
	}
	if err != nil {
		return err
	}
	return printScore(by.c, claims, why)
}

// printScore prints a score. why says why it was not computed again; it is empty if it was.
func printScore(c *cobra.Command, claims autonomy.Claims, why string) error {
	v := verifiedScore{
		Session: claims.Session, Agent: claims.Agent, Owner: claims.Owner, Appraiser: claims.Issuer,
		Score: claims.Composite, Band: claims.Band,
		Number: claims.HeadNumber, Closed: claims.Closed, Computed: why == "", NotComputed: why, Probabilistic: true,
	}
	said := []string{cli.Unbroken(fmt.Sprintf("the score %.1f (%s) of session %s is signed by the appraiser %s",
		v.Score, v.Band, v.Session, v.Appraiser))}
	if v.Computed {
		said = append(said, fmt.Sprintf("computed again from receipts 1 to %d: it is the same", v.Number))
	} else {
		said = append(said, "not computed again: "+why)
	}
	if !v.Closed {
		said = append(said, "the session was not closed: its score can have changed since")
	}
	said = append(said, cli.Unbroken(fmt.Sprintf("agent %s of owner %s", v.Agent, v.Owner)), whatScoresShow)
	return cli.Print(c, v, strings.Join(said, "\n"))
}

const whatScoresShow = `
A score is the likelihood that an agent worked by itself, as far as the receipts of its owner show. It proves nothing.
probabilistic: true
nonHumanIdentityProven: false`
