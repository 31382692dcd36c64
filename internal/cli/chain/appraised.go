package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/erc8004"
	"github.com/actionproof/mediator/reputation/verification"
)

type verifiedAppraisal struct {
	Type                   string `json:"type"` // of the token
	Appraiser              string `json:"appraiser"`
	Issued                 int64  `json:"issued"`  // Unix seconds
	Expires                int64  `json:"expires"` // Unix seconds
	Claims                 any    `json:"claims"`
	Probabilistic          bool   `json:"probabilistic"`
	NonHumanIdentityProven bool   `json:"nonHumanIdentityProven"` // never
}

// appraisal verifies a token of one type, and returns what it is and what it says, in words.
type appraisal func(a archive.Archive, token string, now time.Time) (v verifiedAppraisal, what, says string, err error)

var appraisals = map[string]appraisal{
	accrual.Kind.Typ: appraised(accrual.Kind, func(c accrual.Claims) (what, says string) {
		return "reputation of " + c.AgentID, node.ReputationFacts(c)
	}),
	autonomy.Kind.Typ: appraised(autonomy.Kind, func(c autonomy.Claims) (what, says string) {
		return fmt.Sprintf("score of session %s of %s", c.Session, c.Agent),
			fmt.Sprintf("%.1f (%s)", c.Composite, c.Band)
	}),
	verification.Kind.Typ: appraised(verification.Kind, func(c verification.Result) (what, says string) {
		says = fmt.Sprintf("score %d of %d in the mode %s, with the key %s", c.Score, c.MaxScore, c.Mode, c.DIDKey)
		if c.Degraded {
			says += ", degraded"
		}
		return fmt.Sprintf("verification of %s (%s)", c.Subject, c.SubjectBasis), says
	}),
	dispute.ResolutionKind.Typ: appraised(dispute.ResolutionKind, func(c dispute.Resolution) (what, says string) {
		return "resolution of the dispute " + c.DisputeID,
			fmt.Sprintf("%s against %s: %s by %s, %s", c.Challenger, c.Target, c.Outcome, c.Resolver, c.Reason)
	}),
}

func appraised[C any](k evidence.Kind[C], describe func(C) (what, says string)) appraisal {
	return func(a archive.Archive, token string, now time.Time) (v verifiedAppraisal, what, says string, err error) {
		c, err := archive.JudgeAppraised(a, k, token, now)
		if err != nil {
			return v, "", "", err
		}
		what, says = describe(c)
		all := k.Registered(c)
		return verifiedAppraisal{Type: k.Typ, Appraiser: all.Issuer, Issued: all.IssuedAt, Expires: all.Expires,
			Claims: c, Probabilistic: true}, what, says, nil
	}
}

// appraisalIn finds a node's token in the JSON of a command, or alone.
func appraisalIn(raw []byte) (token string, ok bool) {
	var members map[string]json.RawMessage // no name twice: another reader could take the other one
	if strictjson.ParseMembers(raw, &members) != nil {
		token = strings.TrimSpace(string(raw))
		return token, appraisals[archive.TypeOf(token)] != nil
	}
	for _, name := range []string{"token", "verification", "resolution"} { // a reputation's verification is no token
		if json.Unmarshal(members[name], &token) == nil && appraisals[archive.TypeOf(token)] != nil {
			return token, true
		}
	}
	return "", false
}

// nodes returns the trust for a node's tokens, which need no manifest.
func (by *verifier) nodes() (archive.Archive, error) {
	if _, err := os.Stat(by.manifest); !by.c.Flags().Changed("manifest") && errors.Is(err, fs.ErrNotExist) {
		by.manifest = ""
	}
	return by.archive()
}

func (by *verifier) appraisal(raw []byte, token string) error {
	a, err := by.nodes()
	if err != nil {
		return err
	}
	now := time.Now()
	v, what, says, err := appraisals[archive.TypeOf(token)](a, token, now)
	if err != nil {
		return err
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(raw, &file) == nil { // and not the token alone
		if err := archive.NotOtherwise(file, token, v.Claims); err != nil {
			return err
		}
		var feedback erc8004.Value
		if err := json.Unmarshal(raw, &feedback); err != nil {
			return err
		}
		switch r := v.Claims.(type) {
		case accrual.Claims:
			err = feedback.Agrees(r.CurrentScore)
		case autonomy.Claims:
			err = feedback.Agrees(r.Composite)
		}
		if err != nil {
			return err
		}
	}
	until := fmt.Sprintf("signed %s, good until %s", cli.Seconds(v.Issued), cli.Seconds(v.Expires))
	if now.Unix() >= v.Expires {
		until += ", which is over"
	}
	signed := fmt.Sprintf("the %s is signed by the appraiser %s", what, v.Appraiser)
	said := []string{cli.Unbroken(signed), cli.Unbroken(says), until, whatAppraisalsShow}
	return cli.Print(by.c, v, strings.Join(said, "\n"))
}

const whatAppraisalsShow = `
It is what that node says: nothing of what it rests on is verified here, and it proves of no post who made it.
probabilistic: true
nonHumanIdentityProven: false`
