package chain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// printReceipts prints the receipts of a session, some at a time, because an answer has room for only so many.
func printReceipts(ctx context.Context, out io.Writer, from *records.Reader, session string, closed bool) error {
	for next := int64(1); ; {
		tokens, err := from.Receipts(ctx, session, next, ledger.MaxChain)
		if err != nil {
			return err
		}
		for _, token := range tokens {
			if closed {
				if token, err = archive.Hide(token); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(out, token); err != nil {
				return err
			}
		}
		switch next += int64(len(tokens)); {
		case next == 1:
			return refusal.New("not_found", "the ledger has no interaction receipt of the session %.80q", session)
		case len(tokens) == 0:
			return nil
		}
	}
}

const maxReceiptLine = 32 << 10

const maxHeader = 1024

// areReceipts reports whether in begins like a token that no node has signed. It consumes nothing of in.
func areReceipts(in *bufio.Reader) bool {
	start, _ := in.Peek(maxHeader)
	if strings.HasPrefix(string(start), archive.HiddenReceipt) {
		return true
	}
	// {" in base64url
	return strings.HasPrefix(string(start), "eyJ") && !archive.IsScore(string(start)) &&
		appraisals[archive.TypeOf(string(start))] == nil
}

func receiptLines(in io.Reader, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(make([]byte, 0, 4096), maxReceiptLine)
		for lines.Scan() {
			if !yield(lines.Text(), nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield("", refusal.New("evidence_malformed", "%s: a line has more than %d bytes", path, maxReceiptLine))
		case err != nil:
			yield("", err)
		}
	}
}

type verifiedReceipts struct {
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Owner   string `json:"owner"`
	archive.JudgedReceipts
	Probabilistic          bool `json:"probabilistic"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven"` // never
}

func (by *verifier) receipts(in io.Reader, path string) error {
	a, err := by.archive()
	if err != nil {
		return err
	}
	j, err := a.JudgeReceipts(receiptLines(in, path), time.Now(), nil)
	if err != nil {
		return err
	}
	v := verifiedReceipts{Session: j.Last.Chain.SessionID, Agent: j.Last.Agent, Owner: j.Last.Owner, JudgedReceipts: j,
		Probabilistic: true}
	session := cli.Unbroken(v.Session)
	said := fmt.Sprintf("receipt %d of session %s is valid; by itself it does not show the chain that it is in\n",
		v.Number, session)
	if v.Chain {
		said = fmt.Sprintf("receipts 1 to %d of session %s are valid, and one chain\n", v.Number, session)
		if v.Hidden > 0 {
			said = fmt.Sprintf("receipts 1 to %d of session %s are one chain: %d are valid, and %d are closed; of "+
				"those only that they exist is verified\n", v.Number, session, v.Number-v.Hidden, v.Hidden)
		}
		if v.After > 0 {
			said += fmt.Sprintf("%d closed ones follow them: nothing of those is verified, not even that they exist\n",
				v.After)
		}
		if v.Lost > 0 {
			said += fmt.Sprintf(
				"%d receipts after them were made under other roots, by the start after a crash, for calls that it "+
					"lost\n", v.Lost)
		}
		if v.Lost > 0 && !v.LostVerified {
			said += "nothing of those is verified: their roots are not pinned\n"
		}
		if v.Closed {
			said += "the last closes the session: the chain is whole\n"
		} else {
			said += "the session is not closed: receipts may be missing at its end\n"
		}
	}
	said += fmt.Sprintf("agent %s of owner %s\nhead  %s\n", cli.Unbroken(v.Agent), v.Owner, v.Head)
	return cli.Print(by.c, v, said+whatReceiptsShow)
}

const whatReceiptsShow = `
A receipt says what passed the mediator of its owner, who can have put anything behind it: it does not show that a model
answered and not a human. Figures that are not marked as observed are the agent's or the provider's word. Calls around
the mediator leave no receipt.
probabilistic: true
nonHumanIdentityProven: false`

func namedReceipts(named *archive.Interactions) string {
	if named == nil {
		return ""
	}
	text := "\nThe session receipt names no interaction receipt"
	if named.Number > 0 {
		text = fmt.Sprintf("\nThe session receipt names interaction receipt %d (%s)", named.Number, named.HeadHash)
	}
	if open := len(named.OpenCalls); open > 0 {
		text += fmt.Sprintf("; calls that were open then: %d", open)
	}
	switch {
	case named.Verified && named.First > 1:
		return text + fmt.Sprintf(". The receipts from %d on are here and valid; those before are not here.\n",
			named.First)
	case named.Verified:
		return text + ".\n"
	case named.Number > 0 || len(named.OpenCalls) > 0:
		return text + "; the receipts themselves are not here, and nothing of them is verified.\n"
	}
	return text + ".\n"
}
