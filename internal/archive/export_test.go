package archive_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/gatetest"
)

func list(records ...ledger.Record) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func narrow(t testing.TB, a archive.Archive, records ...ledger.Record) archive.Archive {
	t.Helper()
	a, err := a.For(list(records...))
	must(t, err)
	return a
}

func export(t testing.TB, a archive.Archive, records ...ledger.Record) string {
	t.Helper()
	var to bytes.Buffer
	_, err := archive.Export(t.Context(), &to, a, list(records...), nil, nil)
	must(t, err)
	return to.String()
}

// With nil, the roots in the file count.
func judge(text string, own archive.Archive, now time.Time) (outcomes []string, code string) {
	r, err := archive.NewReader(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil, codeOf(err)
	}
	return judgeFrom(r, own, now)
}

func judgeFrom(r *archive.Reader, own archive.Archive, now time.Time) (outcomes []string, code string) {
	a := r.Archive()
	if own != nil {
		a = a.Pinned(own)
	}
	for j, err := range a.NewJudge(r.Receipts, now).Records(context.Background(), r.Records()) {
		if err != nil {
			return outcomes, codeOf(err)
		}
		outcomes = append(outcomes, strings.TrimSpace(fmt.Sprint(j.Outcome, " ", j.Code)))
	}
	return outcomes, ""
}

func wantOutcomes(t *testing.T, text string, own archive.Archive, now time.Time, want ...string) {
	t.Helper()
	got, code := judge(text, own, now)
	if code != "" || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q %q, want %q", got, code, want)
	}
}

func (w *world) pins() archive.Archive {
	w.t.Helper()
	t, err := archive.ReadRoots(w.files.Registry, w.files.Auditor)
	must(w.t, err)
	return archive.Archive{t}
}

func TestExport(t *testing.T) {
	t.Parallel()
	w, key := newWorld(t, true), evidence.PurposeRuntimeAttestation
	w.Clock.Advance(time.Minute)
	first := w.Post(t)
	first.ID = "post_first"
	w.Rotate(t, key)
	w.publish(key)
	w.versions[key] = w.versions[key][1:]
	w.certify()
	w.Clock.Advance(50 * 24 * time.Hour)
	w.certify()
	w.putDeployment()
	w.Clock.Advance(time.Minute)
	second := w.Post(t)
	refused, unmade, bare := w.Post(t), w.Post(t),
		ledger.Record{ID: "post_read", Flow: "egress", State: ledger.StateForwarded, Started: w.Clock.Now()}
	refused.State, refused.Artifacts = ledger.StateRefused, refused.Artifacts[:4]
	unmade.Artifacts = unmade.Artifacts[:4]
	w.Manifest.SignerCertificatePolicy.MaxCertificateAgeMs /= 2
	w.putDeployment()
	now := w.Clock.Now()

	var to bytes.Buffer
	made, err := archive.Export(t.Context(), &to, archive.Archive{w.read()},
		list(first, bare, second, refused, unmade), nil, nil)
	if err != nil || made.Records != 4 || made.LeftOut != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	text := to.String()
	want := []string{"verified", "verified", "incomplete", "refused artifact_missing"}
	wantOutcomes(t, text, w.pins(), now, want...)
	wantOutcomes(t, text, nil, now, want...)
	wantOutcomes(t, text, newWorld(t, false).pins(), now, "refused roots_not_pinned", "refused roots_not_pinned",
		"refused roots_not_pinned", "refused roots_not_pinned")

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write([]byte(text))
	must(t, err)
	must(t, z.Close())
	wantOutcomes(t, packed.String(), w.pins(), now, want...)

	// One record brings what it needs, and no more.
	one := export(t, narrow(t, archive.Archive{w.read()}, first), first)
	wantOutcomes(t, one, w.pins(), now, "verified")
	if strings.Contains(one, "post_second") || strings.Count(one, `{"manifest":`) != 1 ||
		strings.Count(one, "ertificate\":") >= strings.Count(text, "ertificate\":") {
		t.Errorf("it has %d bytes:\n%.3000s", len(one), one)
	}
}

// An export has the revocations of its time. Today's bundle beside it adds the later ones.
func TestExportKnowsNoMore(t *testing.T) {
	t.Parallel()
	w, key := newWorld(t, false), evidence.PurposeTriggerReceipt
	w.Clock.Advance(time.Minute)
	r := w.Post(t)
	w.Clock.Advance(time.Minute)
	text := export(t, archive.Archive{w.read()}, r)
	w.revoke(evidence.RevokedKey, w.Key(t, key).KeyID(), 24*time.Hour)
	w.Clock.Advance(time.Minute)
	wantOutcomes(t, text, w.pins(), w.Clock.Now(), "verified")
	wantOutcomes(t, text, archive.Archive{w.read()}, w.Clock.Now(), "refused revoked")
	later := export(t, archive.Archive{w.read()}, r)
	wantOutcomes(t, later, w.pins(), w.Clock.Now(), "refused revoked")

	// An export with a list of before does not undo what the verifier knows himself, whichever list is the later one.
	before := evidence.Bundle{}
	b, _, err := deployed.ReadBundle(w.files.Bundle)
	must(t, err)
	before.Certificates, before.DeploymentCertificate = b.Certificates, b.DeploymentCertificate
	old, err := archive.ReadRoots(w.files.Registry, w.files.Auditor)
	must(t, err)
	old.Bundle = before
	wantOutcomes(t, later, archive.Archive{old}, w.Clock.Now(), "refused revoked")

	// A certificate of before the retirement does not bring the retired key back.
	v := newWorld(t, false)
	v.Clock.Advance(time.Minute)
	open := export(t, archive.Archive{v.read()})
	held := v.Key(t, key)
	v.Rotate(t, key)
	v.publish(key)
	v.versions[key] = v.versions[key][1:]
	v.certify()
	v.Clock.Advance(time.Minute)
	forged := v.Post(t)
	for i, a := range forged.Artifacts {
		if a.Name == "triggerReceipt" {
			c, err := evidence.UnverifiedClaims(evidence.TriggerReceiptKind(), a.Token)
			must(t, err)
			forged.Artifacts[i].Token, err = evidence.Sign(context.Background(), held, evidence.TriggerReceiptKind(), c)
			must(t, err)
		}
	}
	raw, err := json.Marshal(forged)
	must(t, err)
	forgery := strings.Replace(open, `{"end":{"records":0}}`, `{"record":`+string(raw)+"}\n"+`{"end":{"records":1}}`, 1)
	wantOutcomes(t, forgery, archive.Archive{v.read()}, v.Clock.Now(), "refused key_retired")
}

func TestEarlierRoots(t *testing.T) {
	t.Parallel()
	w, before := newWorld(t, false), newWorld(t, false, func(m *policy.Manifest) {
		m.SignerCertificatePolicy.MaxCertificateAgeMs /= 2
	})
	dir := t.TempDir()
	must(t, os.Rename(filepath.Dir(before.files.Bundle), filepath.Join(dir, "20260101")))
	must(t, os.Mkdir(filepath.Join(dir, ".new"), 0o700))
	earlier, err := archive.ReadEarlier(dir, w.files)
	must(t, err)
	all := append(archive.Archive{w.read()}, earlier...)
	w.Clock.Advance(time.Minute)
	before.Clock.Advance(time.Minute)
	now := w.Clock.Now()
	first := before.Post(t)
	first.ID = "post_before"
	refused := before.Post(t)
	refused.State, refused.Artifacts = ledger.StateRefused, refused.Artifacts[:4]
	text := export(t, all, first, w.Post(t), refused)
	wantOutcomes(t, text, all, now, "verified", "verified", "incomplete")
	wantOutcomes(t, text, w.pins(), now, "refused roots_not_pinned", "verified", "refused roots_not_pinned")

	must(t, os.Remove(filepath.Join(dir, "20260101", filepath.Base(w.files.Auditor))))
	if _, err := archive.ReadEarlier(dir, w.files); err == nil {
		t.Error("a folder without a root is taken")
	}
	if a, err := archive.ReadEarlier(filepath.Join(dir, "none"), w.files); len(a) != 0 || err != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// New roots for an unchanged manifest certify the same keys again: a refused post without a deployment certificate stays
// with the roots of its time.
func TestEarlierRootsOfOneManifest(t *testing.T) {
	t.Parallel()
	before, w := newWorld(t, false), newWorldAt(t, gatetest.Start.Add(time.Hour), false)
	dir := t.TempDir()
	must(t, os.Rename(filepath.Dir(before.files.Bundle), filepath.Join(dir, "1")))
	earlier, err := archive.ReadEarlier(dir, w.files)
	must(t, err)
	all := append(archive.Archive{w.read()}, earlier...)
	var records []ledger.Record
	for _, of := range []*world{before, w} {
		of.Clock.Advance(time.Minute)
		r := of.Post(t)
		r.ID, r.State, r.Artifacts = fmt.Sprint("post_", len(records)), ledger.StateRefused, r.Artifacts[:4]
		records = append(records, r)
	}
	wantOutcomes(t, export(t, all, records...), all, w.Clock.Now(), "incomplete", "incomplete")
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.Post(t)
	r.Manifest = strings.Repeat("a", 64)
	if _, err := archive.Export(t.Context(), &bytes.Buffer{}, archive.Archive{w.read()}, list(r), nil, nil); codeOf(err) !=
		"manifest_unknown" {
		t.Errorf("a manifest that is not there: %v", err)
	}
	r = w.Post(t)
	r.Path = strings.Repeat("/", 1<<20)
	if _, err := archive.Export(t.Context(), &bytes.Buffer{}, archive.Archive{w.read()}, list(r), nil, nil); codeOf(err) !=
		"evidence_malformed" {
		t.Errorf("a record of a megabyte: %v", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	good := export(t, archive.Archive{w.read()}, w.Post(t), w.Post(t))
	lines := strings.SplitAfter(good, "\n")
	lines = lines[:len(lines)-1]
	at := func(name string) int {
		for i, line := range lines {
			if strings.HasPrefix(line, `{"`+name+`":`) {
				return i
			}
		}
		t.Fatalf("no line is a %s", name)
		return 0
	}
	without := func(from, to int) string { return strings.Join(lines[:from], "") + strings.Join(lines[to:], "") }
	insert := func(i int, line string) string {
		return strings.Join(lines[:i], "") + line + strings.Join(lines[i:], "")
	}
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	outcomes, code := judge(good, w.pins(), w.Clock.Now())
	if code != "" || fmt.Sprint(outcomes) != "[verified verified]" {
		t.Fatalf("%q %q", outcomes, code)
	}
	record, last := at("record"), len(lines)-1
	for name, text := range map[string]string{
		"nothing":                      "",
		"another format":               replace(`{"actionproof-evidence":`, `{"actionproof-evidences":`),
		"a later version":              replace(`"version":1`, `"version":2`),
		"no header":                    without(0, 1),
		"no roots":                     without(1, 2),
		"no trust at all":              lines[0] + lines[last],
		"cut off in a line":            good[:len(good)-40],
		"cut off after a line":         without(last, last+1),
		"a record left out":            without(record, record+1),
		"a record more":                insert(record, lines[record]),
		"another export after it":      good + good,
		"the header twice":             insert(1, lines[0]),
		"something after the end":      good + lines[last],
		"a certificate after a record": insert(record+1, lines[at("certificate")]),
		"two members in a line":        replace(`{"roots":`, `{"end":{},"roots":`),
		"an unknown line":              insert(2, `{"comment":"x"}`+"\n"),
		"an unknown member":            replace(`{"record":{`, `{"record":{"extra":1,`),
		"a member twice":               replace(`{"record":{`, `{"record":{"id":"post_2",`),
		"no JSON":                      insert(2, "certificate\n"),
		"a line of a megabyte":         insert(2, `{"certificate":"`+strings.Repeat("a", 1<<20)+"\"}\n"),
		"a certificate that is a list": insert(2, `{"certificate":[]}`+"\n"),
		"a root that is no key":        replace(`"crv":"Ed25519"`, `"crv":"Ed448"`),
		"a manifest that is none":      insert(2, `{"manifest":"{}"}`+"\n"),
		"a policy":                     insert(record, `{"policy":"version: 1\nrules: []\n"}`+"\n"),
		"an artifact twice":            replace(`"name":"grant"`, `"name":"challenge"`),
		"two revocation lists":         insert(2, strings.Repeat(`{"revocations":"x"}`+"\n", 2)),
		"gzip that is none":            "\x1f\x8b" + good,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, code := judge(text, w.pins(), w.Clock.Now()); code != "evidence_malformed" {
				t.Errorf("got %q", code)
			}
		})
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no certificate": {without(at("certificate"), at("certificate")+7), "refused key_unknown"},
		"another registry's": {
			insert(2, `{"certificate":"`+newWorld(t, false).read().Bundle.Certificates[0]+"\"}\n"),
			"refused signature_invalid"},
		"no manifest":                  {without(at("manifest"), at("manifest")+1), "refused manifest_unknown"},
		"a list that is no JWS":        {insert(2, `{"revocations":"x"}`+"\n"), "refused revocations_stale"},
		"earlier lists without a list": {insert(2, `{"earlierRevocations":"x"}`+"\n"), "refused revocations_stale"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantOutcomes(t, tt.text, w.pins(), w.Clock.Now(), tt.want, tt.want)
		})
	}
}

// Any text is refused or judged, without a panic.
func FuzzReader(f *testing.F) {
	w := newWorld(f, false)
	w.Clock.Advance(time.Minute)
	lines := strings.SplitAfter(export(f, archive.Archive{w.read()}), "\n")
	// short ones: of a long one the fuzzer would do nothing but shorten it
	f.Add(lines[0] + lines[1] + `{"end":{"records":0}}` + "\n")
	f.Add(lines[0] + lines[1] + lines[2] +
		`{"record":{"id":"post_1","flow":"post","state":"refused","started":"2026-11-20T12:00:00Z",` +
		`"artifacts":[{"name":"challenge","token":"a.b.c"}]}}` + "\n" + `{"end":{"records":1}}` + "\n")
	f.Add(lines[0] + lines[1] + `{"revocations":"a.b.c"}` + "\n" + `{"manifest":"{}"}` + "\n")
	pins := w.pins()
	f.Fuzz(func(t *testing.T, text string) {
		outcomes, code := judge(text, pins, w.Clock.Now())
		if code != "" && code != "evidence_malformed" {
			t.Errorf("it says %q after %q", code, outcomes)
		}
	})
}

func BenchmarkExport(b *testing.B) {
	w := newWorld(b, false)
	records := make([]ledger.Record, b.N)
	r := w.Post(b)
	for i := range records {
		records[i] = r
	}
	a := archive.Archive{w.read()}
	b.ResetTimer()
	_, err := archive.Export(b.Context(), &bytes.Buffer{}, a, list(records...), nil, nil)
	must(b, err)
}

func BenchmarkVerify(b *testing.B) {
	w := newWorld(b, false)
	w.Clock.Advance(time.Minute)
	records := make([]ledger.Record, b.N)
	for i := range records {
		records[i] = w.Post(b)
	}
	text := export(b, archive.Archive{w.read()}, records...)
	b.ResetTimer()
	if outcomes, code := judge(text, w.pins(), w.Clock.Now()); code != "" || len(outcomes) != b.N {
		b.Fatal(code)
	}
}

type repeated struct {
	text  string
	times int
	rest  string
}

func (r *repeated) Read(to []byte) (int, error) {
	if r.rest == "" {
		if r.times--; r.times < 0 {
			return 0, io.EOF
		}
		r.rest = r.text
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestReaderIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	good := export(t, archive.Archive{w.read()}, w.Post(t))
	before := good[:strings.Index(good, `{"end":`)]
	for name, tt := range map[string]repeated{
		"empty receipts": {text: `{"receipt":""}` + "\n", times: 2 << 20 >> 6},
		"receipts with long sessions": {text: `{"receipt":""}` + "\n" + `{"record":{"session":"` +
			strings.Repeat("s", 1<<19>>6) + `%09d","artifacts":[{"name":"grant","token":"x"}]}}` + "\n", times: 200},
	} {
		t.Run(name, func(t *testing.T) {
			var in io.Reader = &tt
			if strings.Contains(tt.text, "%") {
				var all []io.Reader
				for i := range tt.times {
					all = append(all, &repeated{text: fmt.Sprintf(tt.text, i), times: 1})
				}
				in = io.MultiReader(all...)
			}
			r, err := archive.NewReader(bufio.NewReader(io.MultiReader(strings.NewReader(before), in)))
			must(t, err)
			r.Hold(64 << 20 >> 6)
			for _, err = range r.Records() {
			}
			if codeOf(err) != "evidence_malformed" ||
				!strings.Contains(err.Error(), "belong to records that are not verified") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestVerificationIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	var records []ledger.Record
	for i := range 3 {
		r := w.Post(t)
		r.ID = fmt.Sprint(i)
		records = append(records, r)
	}
	text := export(t, archive.Archive{w.read()}, records...)
	records = append(records, ledger.Record{ID: "read", Flow: "egress", State: ledger.StateForwarded}) // no evidence
	for most, want := range map[int]string{3: "<nil>", 2: "evidence_malformed"} {
		r, err := archive.NewReader(bufio.NewReader(strings.NewReader(text)))
		must(t, err)
		r.Most(most)
		judge, read, verified := (archive.Archive{w.read()}).NewJudge(nil, w.Clock.Now()), 0, 0
		judge.Most(most)
		for _, err = range r.Records() {
			read++
		}
		got := codeOf(err)
		for _, err = range judge.Records(t.Context(), list(records...)) {
			verified++
		}
		// the last one is the error
		if got != want || codeOf(err) != want || read != 3 || verified != 3 {
			t.Errorf("at most %d: read %d (%s), verified %d (%v)", most, read, got, verified, err)
		}
	}
}
