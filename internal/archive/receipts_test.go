package archive_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func (w *world) session(id string) *gatetest.Session {
	w.t.Helper()
	s := w.Session(w.t, id)
	if len(w.versions[evidence.PurposeInteraction]) == 0 {
		w.publish(evidence.PurposeInteraction)
		w.certify()
		w.Clock.Advance(3 * time.Second)
	}
	s.Owner = interaction.Owner(w.read().Roots[0].Public)
	return s
}

func (w *world) post(id string, head evidence.InteractionHead) ledger.Record {
	w.t.Helper()
	r := w.PostOf(w.t, gatetest.Claim(evidence.PurposeAgentSession, "interactions", head))
	r.ID = id
	return r
}

func receiptsOf(of map[string]*gatetest.Session) archive.Receipts {
	return func(ctx context.Context, session string, from int64, limit int) ([]string, error) {
		if s := of[session]; s != nil {
			return archive.ReceiptsOf(s.Receipts)(ctx, session, from, limit)
		}
		return nil, nil
	}
}

func TestRecordsWithReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	before := w.Post(t)
	before.ID = "post_before"
	s := w.session("ses_1")
	empty := w.post("post_empty", s.Head())
	s.PostOf(t, empty, nil)
	s.Call(t, nil)
	first := w.post("post_1", s.Head("post_ses_1_000005"))
	s.Call(t, nil)
	s.PostOf(t, first, nil)
	for range 700 { // more than are read at once
		s.Call(t, nil)
	}
	second := w.post("post_2", s.Head())
	s.PostOf(t, second, nil)
	s.Close(t)
	w.Clock.Advance(time.Minute)
	now, from := w.Clock.Now(), receiptsOf(map[string]*gatetest.Session{"ses_1": s})
	records := []ledger.Record{before, empty, first, second}

	var to bytes.Buffer
	_, err := archive.Export(t.Context(), &to, archive.Archive{w.read()}, list(records...), from, nil)
	must(t, err)
	if n := strings.Count(to.String(), "\n{\"receipt\":"); n != 705 {
		t.Errorf("%d receipts are exported, and the posts have 705", n)
	}
	wantOutcomes(t, to.String(), w.pins(), now, "verified", "verified", "verified", "verified")
	one := new(bytes.Buffer)
	_, err = archive.Export(t.Context(), one, narrow(t, archive.Archive{w.read()}, first), list(first), from, nil)
	must(t, err)
	wantOutcomes(t, one.String(), w.pins(), now, "verified")
	// without receipts
	wantOutcomes(t, export(t, archive.Archive{w.read()}, records...), w.pins(), now, "verified", "verified",
		"verified", "verified")
	wantOutcomes(t, to.String(), newWorld(t, false).pins(), now, "refused roots_not_pinned", "refused roots_not_pinned",
		"refused roots_not_pinned", "refused roots_not_pinned")

	lines := strings.SplitAfter(to.String(), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"receipt":`) })
	without := strings.Join(slices.Delete(slices.Clone(lines), at, at+1), "")
	wantOutcomes(t, without, w.pins(), now, "verified", "verified", "refused chain_incomplete",
		"refused chain_incomplete")
	end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"end":`) })
	wantOutcomes(t, strings.Join(slices.Insert(slices.Clone(lines), end, lines[at]), ""), w.pins(), now, "verified",
		"verified", "verified", "refused chain_broken") // it belongs to no record
}

func TestExportOfALongSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s, size := w.session("ses_1"), 0
	tags := make([]string, interaction.MaxReturned)
	relayed := interaction.RelayedCall{Host: strings.Repeat("h", 128), Tool: strings.Repeat("t", 128)}
	for i := range tags {
		tags[i] = gatetest.Tag("call", i)
	}
	const held = 2 << 20
	for size < 2*held {
		size += len(s.Call(t, func(c *interaction.Receipt) { // long ones: they are fewer
			c.Model.ReturnedCalls, c.Model.Model, c.RelayedCount = tags, relayed.Host, interaction.MaxRelayed
			c.Relayed = slices.Repeat([]interaction.RelayedCall{relayed}, interaction.MaxRelayed)
			c.Model.ToolCalls = slices.Repeat(c.Model.ToolCalls, interaction.MaxToolCalls)
			c.Model.Figures.ToolCallsMade = interaction.Observed(interaction.MaxToolCalls)
		}))
	}
	r := w.post("post_1", s.Head())
	s.PostOf(t, r, nil)
	w.Clock.Advance(time.Minute)
	var to bytes.Buffer
	_, err := archive.Export(t.Context(), &to, archive.Archive{w.read()}, list(r),
		receiptsOf(map[string]*gatetest.Session{"ses_1": s}), nil)
	must(t, err)
	reader, err := archive.NewReader(bufio.NewReader(&to))
	must(t, err)
	reader.Hold(held)
	if outcomes, code := judgeFrom(reader, w.pins(), w.Clock.Now()); code != "" ||
		!slices.Equal(outcomes, []string{"verified"}) {
		t.Errorf("%q %q", outcomes, code)
	}
}

func TestARecordWithReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s, other := w.session("ses_1"), w.session("ses_1")
	for range 3 {
		s.Call(t, nil)
		other.Call(t, func(c *interaction.Receipt) { c.EventID = "evt_other" })
	}
	named := s.Head("post_open")
	r := w.post("post_1", named)
	chain := slices.Clone(s.Receipts)
	// own are the receipts up to that of the post itself.
	own := func(edit func(*interaction.Receipt)) []string {
		s.Receipts = slices.Clone(chain)
		s.PostOf(t, r, edit)
		all := s.Receipts
		s.Receipts = chain
		return all
	}
	// followed are those receipts with what came after them.
	followed := func(edit func(*interaction.Receipt)) []string {
		s.Receipts = own(edit)
		s.Call(t, nil)
		all := s.Receipts
		s.Receipts = chain
		return all
	}
	w.Clock.Advance(time.Minute)
	for name, tt := range map[string]struct {
		receipts []string
		record   ledger.Record
		code     string
		verified bool
	}{
		"all":                {s.Receipts, r, "", true},
		"none":               {nil, r, "", false},
		"too few":            {s.Receipts[:2], r, "chain_broken", false},
		"a gap":              {[]string{s.Receipts[0], s.Receipts[2]}, r, "chain_incomplete", false},
		"the end of it":      {s.Receipts[1:], r, "", true},
		"the post's own too": {own(nil), r, "", true},
		"another artifact in its own": {own(func(c *interaction.Receipt) {
			c.Post.Artifacts[0].Hash = evidence.HashBytes(nil)
		}), r, "record_mismatch", false},
		"an artifact that is not there": {own(func(c *interaction.Receipt) {
			c.Post.Artifacts[0].Name = "other"
		}), r, "record_mismatch", false},
		"another binding in its own": {own(func(c *interaction.Receipt) {
			c.Post.BindingHash = evidence.HashBytes(nil)
		}), r, "record_mismatch", false},
		"the chain has gone on": {followed(nil), r, "", true},
		"another artifact, long before": {followed(func(c *interaction.Receipt) {
			c.Post.Artifacts[0].Hash = evidence.HashBytes(nil)
		}), r, "record_mismatch", false},
		"another chain":             {other.Receipts, r, "chain_broken", false},
		"an open call that was not": {s.Receipts, w.post("post_1", s.Head("post_ses_1_000002")), "chain_broken", false},
		"another head":              {s.Receipts, w.post("post_1", other.Head()), "chain_broken", false},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(struct {
				ledger.Record
				Receipts []string `json:"receipts"`
			}{tt.record, tt.receipts})
			must(t, err)
			r, err := archive.ParseRecord(raw, "record.json")
			must(t, err)
			v, err := w.read().Verify(t.Context(), r.Record, archive.ReceiptsOf(r.Receipts), w.Clock.Now())
			must(t, err)
			if v.Refused().Code != tt.code || v.Whole != (tt.code == "") || v.Interactions == nil ||
				v.Interactions.Verified != tt.verified {
				t.Errorf("%+v, %+v, want %q", v.Checks, v.Interactions, tt.code)
			}
			if got := v.Interactions; tt.code == "" &&
				(got.HeadHash != named.HeadHash || got.Number != 3 || fmt.Sprint(got.OpenCalls) != "[post_open]") {
				t.Errorf("it names %+v", got)
			}
		})
	}
	plain := w.Post(t)
	if v, err := w.read().Verify(t.Context(), plain, archive.ReceiptsOf(s.Receipts), w.Clock.Now()); err != nil ||
		!v.Whole || v.Interactions != nil {
		t.Errorf("a record that names no receipts: %+v, %v", v, err)
	}
}

type judgement struct {
	tokens []string
	code   string
	want   archive.JudgedReceipts
}

func (j judgement) check(t *testing.T, a archive.Archive, now time.Time) {
	t.Helper()
	got, err := a.JudgeReceipts(texts(j.tokens), now, nil)
	if j.code != "" {
		check.WantCode(t, err, j.code)
		return
	}
	must(t, err)
	last := int64(0)
	if got.Chain {
		last = got.Number - 1
	}
	j.want.Last, j.want.Head = got.Last, evidence.HashToken(j.tokens[last])
	check.WantEqual(t, got, j.want)
}

func texts(tokens []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, token := range tokens {
			if !yield(token, nil) {
				return
			}
		}
	}
}

func TestJudgeReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s, other, theirs := w.session("ses_1"), w.session("ses_2"), newWorld(t, false).session("ses_1")
	for range 4 {
		s.Call(t, nil)
		other.Call(t, nil)
		theirs.Call(t, nil)
	}
	s.Close(t)
	w.Clock.Advance(time.Hour)
	a, hidden, all := archive.Archive{w.read()}, archive.HiddenReceipt+evidence.HashBytes(nil), s.Receipts
	for name, j := range map[string]judgement{
		"a whole chain":       {tokens: all, want: archive.JudgedReceipts{Number: 5, Chain: true, Closed: true}},
		"one that goes on":    {tokens: all[:3], want: archive.JudgedReceipts{Number: 3, Chain: true}},
		"the first":           {tokens: all[:1], want: archive.JudgedReceipts{Number: 1, Chain: true}},
		"one from the middle": {tokens: all[2:3], want: archive.JudgedReceipts{Number: 3}},

		"two from the middle":              {tokens: all[2:4], code: "chain_incomplete"},
		"the last one first":               {tokens: slices.Concat(all[3:], all[:3]), code: "chain_incomplete"},
		"one of another session first":     {tokens: slices.Concat(other.Receipts[1:2], all), code: "chain_incomplete"},
		"a hash after one from the middle": {tokens: []string{other.Receipts[1], hidden}, code: "chain_incomplete"},
		"one of other roots in the middle": {tokens: slices.Insert(slices.Clone(all), 2, theirs.Receipts[2]),
			code: "chain_broken"},
		"somebody else's":        {tokens: theirs.Receipts, code: "roots_not_pinned"},
		"one of somebody else's": {tokens: theirs.Receipts[1:], code: "roots_not_pinned"},
		"none":                   {code: "evidence_malformed"},
		"no token":               {tokens: []string{"eyJ"}, code: "artifact_malformed"},
	} {
		t.Run(name, func(t *testing.T) { j.check(t, a, w.Clock.Now()) })
	}
}
