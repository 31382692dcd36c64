package chain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// judgedFile has four separate results: authentic, untampered, witnessed and complete.
type judgedFile struct {
	Authentic authentic `json:"authentic"`
	logged
	Roots []judgedWith `json:"roots"`
	// posts with a receipt and without a record, at most maxMissing
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missingCount"` // of all such posts
	// Unproven says what no signature proves about the whole file.
	Unproven               []string `json:"unproven"`
	NonHumanIdentityProven bool     `json:"nonHumanIdentityProven"` // never
}

type judgedWith struct {
	Registry    string     `json:"registry"`
	Auditor     string     `json:"auditor"`
	Revocations *time.Time `json:"revocations,omitempty"` // when the revocation list was signed; nil without one
	Earlier     int        `json:"earlierRevocations"`    // earlier lists: entries leave the list when they end
}

// authentic counts records by what their signatures show.
type authentic struct {
	Verified   int `json:"verified"`
	Incomplete int `json:"incomplete"`
	Refused    int `json:"refused"`
}

func (a authentic) String() string {
	return fmt.Sprintf("%d verified, %d incomplete (their records say that the post was refused), %d REFUSED",
		a.Verified, a.Incomplete, a.Refused)
}

const maxMissing = 100

var unprovenOfFile = []string{
	"posts: that none passed by the log", "receipts: that none is missing after the last one here",
	"certificates, revocations: that none is missing",
}

// judging verifies many records, by their signatures and by the transparency log.
type judging struct {
	by      *verifier
	archive archive.Archive
	proofs  archive.ProofSource // nil without a log
	period  ledger.Query        // in which the log may hold no other posts
	unasked func() int          // counts the receipts that belong to no record; nil if each belongs to one

	judge    *archive.Judge
	log      *archive.LogJudge
	count    map[archive.Outcome]int
	used     map[*archive.Trust]bool
	unproven map[string]int // the number of records that do not prove a member
	order    []string       // of the members in unproven
}

// print verifies records. It prints the refused ones, or all as lines of JSON, and a summary.
func (j *judging) print(records iter.Seq2[ledger.Record, error], receipts archive.Receipts) (err error) {
	if j.log, err = j.by.log.judge(); err != nil {
		return err
	}
	c := j.by.c
	j.judge = j.archive.NewJudge(receipts, time.Now())
	j.count, j.used, j.unproven = make(map[archive.Outcome]int), make(map[*archive.Trust]bool), make(map[string]int)
	out, told := cli.Plain(c.OutOrStdout()), ""
	for judged, err := range j.judge.Records(c.Context(), records) {
		if err != nil {
			return err
		}
		if err := j.add(c.Context(), &judged); err != nil {
			return err
		}
		switch {
		case cli.AsJSON(c):
			err = cli.WriteJSONLine(c.OutOrStdout(), judged)
		case judged.Outcome == archive.Refused:
			_, err = fmt.Fprintf(cli.Lines(out), "%s REFUSED at %s, %s: %s\n", judged.ID, judged.Check, judged.Code,
				judged.Detail)
			if remedy := problem.Remedy(judged.Code); err == nil && remedy != told {
				told = remedy
				_, err = fmt.Fprintln(c.ErrOrStderr(), remedy)
			}
		}
		if err != nil {
			return err
		}
	}
	switch {
	case len(j.count) == 0:
		return errors.New("there is no record with evidence: nothing was verified")
	case j.unasked != nil && j.count[archive.Refused] == 0 && j.unasked() > 0:
		return refusal.New("evidence_malformed",
			"%d interaction receipts of the export are not used by any of its records", j.unasked())
	}
	unread := j.by.log.against(c, j.log, j.period.Since, j.period.Until)
	s := j.summary()
	if cli.AsJSON(c) {
		err = cli.WriteJSONLine(c.OutOrStdout(), map[string]judgedFile{"summary": s})
	} else {
		err = j.printSummary(out, s)
	}
	switch {
	case err != nil:
		return err
	case unread != nil:
		return fmt.Errorf("the transparency log: %w", unread)
	case s.Authentic.Refused > 0 || s.refused():
		return cli.ErrRefused
	}
	return nil
}

// add counts a record, and compares it with the log.
func (j *judging) add(ctx context.Context, judged *archive.Judged) (err error) {
	j.count[judged.Outcome]++
	j.used[judged.By] = j.used[judged.By] || judged.Outcome != archive.Refused
	for _, name := range judged.Unproven {
		if j.unproven[name]++; j.unproven[name] == 1 {
			j.order = append(j.order, name)
		}
	}
	var p archive.Proofs
	if j.proofs != nil {
		if p, err = j.proofs(ctx, judged.ID); err != nil {
			return err
		}
	}
	result, d := j.log.Add(judged.Record, p)
	judged.Log, judged.LogCode, judged.LogDetail = result, d.Code, d.Detail
	return nil
}

func (j *judging) summary() judgedFile {
	s := judgedFile{
		Authentic: authentic{j.count[archive.Verified], j.count[archive.Incomplete], j.count[archive.Refused]},
		logged:    logged{j.log.Logged}, Roots: []judgedWith{}, Missing: j.judge.Missing(), Unproven: unprovenOfFile,
	}
	for _, t := range j.archive {
		if !j.used[t] {
			continue
		}
		with := judgedWith{Registry: t.Roots[0].KeyID, Auditor: t.Roots[1].KeyID, Earlier: len(t.History.Revocations)}
		if signed := t.RevocationsSigned(); !signed.IsZero() {
			with.Revocations = &signed
		}
		s.Roots = append(s.Roots, with)
	}
	s.MissingCount = len(s.Missing)
	s.Missing = s.Missing[:min(maxMissing, len(s.Missing))]
	return s
}

func (j *judging) printSummary(out io.Writer, s judgedFile) error {
	var text strings.Builder
	fmt.Fprintf(&text, lineForm, "Authentic:", s.Authentic)
	s.print(&text)
	fmt.Fprintln(&text)
	if s.MissingCount > 0 {
		fmt.Fprintf(cli.Lines(&text), "%d posts have a receipt here and no record: %s\n", s.MissingCount,
			strings.Join(s.Missing, ", "))
	}
	for _, r := range s.Roots {
		known := "no revocation list: what was revoked is not known"
		if r.Revocations != nil {
			known = fmt.Sprintf("the revocation list of %s and %d earlier ones: what any other list revokes is not "+
				"known", r.Revocations.Format(time.RFC3339), r.Earlier)
		}
		fmt.Fprintf(cli.Lines(&text), "Roots %s and %s, with %s.\n", r.Registry, r.Auditor, known)
	}
	if len(s.Roots) > 0 {
		fmt.Fprintf(&text, "\nNot proven, the records' own word: %s.\nNot proven of the file: %s.\n",
			j.unprovenMembers(s.Authentic.Verified+s.Authentic.Incomplete), strings.Join(s.Unproven, "; "))
		text.WriteString("\nOf the posts that this check did not refuse:" + whatVerifies)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// unprovenMembers names the unproven members of records, with the number of records if it is not all.
func (j *judging) unprovenMembers(all int) string {
	slices.SortStableFunc(j.order, func(a, b string) int { return j.unproven[b] - j.unproven[a] })
	names := make([]string, len(j.order))
	for i, name := range j.order {
		if names[i] = name; j.unproven[name] < all {
			names[i] = fmt.Sprintf("%s (of %d)", name, j.unproven[name])
		}
	}
	return strings.Join(names, ", ")
}
