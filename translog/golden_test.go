package translog_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

const origin = "log.example/deployment"

// private returns a key that is the same in each run.
func private(seed string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(seed, ed25519.SeedSize)))
}

func key(t testing.TB, seed string) translog.Key {
	t.Helper()
	p := private(seed)
	k, err := translog.NewKey(origin, p.Public().(ed25519.PublicKey),
		func(_ context.Context, m []byte) ([]byte, error) {
			return ed25519.Sign(p, m), nil
		})
	check.Must(t, err)
	return k
}

func policy(t testing.TB, lines ...string) *translog.Policy {
	t.Helper()
	p, err := translog.ParsePolicy([]byte("log " + key(t, "L").String() + "\n" + strings.Join(lines, "\n") + "\n"))
	check.Must(t, err)
	return p
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	check.Must(t, err)
	return raw
}

// TestGolden verifies a proof with a cosignature, also by torchwood and x/mod, which know nothing of leaves.
func TestGolden(t *testing.T) {
	text := golden(t, "intent.tlog-proof")
	p, err := translog.ParsePolicy(golden(t, "policy"))
	check.Must(t, err)
	v, err := p.Verify(text)
	check.Must(t, err)
	if v.Origin != origin || v.Index != 300 || v.Tree.N != 517 || v.Opening.Document.Post != "post_300" ||
		len(v.Witnesses) != 1 || v.Witnesses[0].Witness != "other" {
		t.Errorf("got %+v", v)
	}
	theirs, err := torchwood.ParsePolicy(golden(t, "policy"))
	check.Must(t, err)
	hash := tlog.RecordHash(v.Opening.Entry.Encode())
	check.Must(t, torchwood.VerifyProof(theirs, hash, text))
	parsed, err := translog.ParseProof(text)
	check.Must(t, err)
	verifier, err := note.NewVerifier(key(t, "L").String())
	check.Must(t, err)
	n, err := note.Open([]byte(parsed.Checkpoint), note.VerifierList(verifier))
	check.Must(t, err)
	head, err := torchwood.ParseCheckpoint(n.Text)
	check.Must(t, err, tlog.CheckRecord(parsed.Hashes, head.N, head.Hash, parsed.Index, hash))

	unsigned, _, _ := strings.Cut(string(text), "\u2014 witness.example/w")
	other := string(leaf.New(leaf.Intent, now, leaf.Document{Post: "post_301"}).Encode())
	for name, tt := range map[string]struct {
		text string
		code string
	}{
		"without the witness": {unsigned, "log_unwitnessed"},
		"another origin":      {strings.Replace(string(text), origin+"\n", "log.example/x\n", 1), "log_unwitnessed"},
		"another size":        {strings.Replace(string(text), "\n517\n", "\n518\n", 1), "log_unwitnessed"},
		"another index":       {strings.Replace(string(text), "index 300", "index 301", 1), "record_mismatch"},
		"a leading zero":      {strings.Replace(string(text), "index 300", "index 0300", 1), "evidence_malformed"},
		"a hash less":         {cutLine(string(text), 3), "record_mismatch"},
		"no opening":          {cutLine(string(text), 1), "evidence_malformed"},
		"another entry": {string(translog.Proof{Opening: []byte(other), Index: 300, Hashes: parsed.Hashes,
			Checkpoint: parsed.Checkpoint}.Encode()), "record_mismatch"},
		"an opening of another": {strings.Replace(string(text), "extra eyJ", "extra eyI", 1), "evidence_malformed"},
		"more than a proof has": {string(text) + strings.Repeat("x", translog.MaxProof), "evidence_malformed"},
		"carriage returns":      {strings.ReplaceAll(string(text), "\n", "\r\n"), "evidence_malformed"},
		"nothing":               {"", "evidence_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Verify([]byte(tt.text))
			check.WantCode(t, err, tt.code)
		})
	}
}

// TestEndless: a log of more than 2^62 entries does not keep its reader busy for ever.
func TestEndless(t *testing.T) {
	verifier, err := note.NewVerifier(key(t, "L").String())
	check.Must(t, err)
	text := torchwood.Checkpoint{Origin: origin, Tree: tlog.Tree{N: math.MaxInt64}}.String()
	signed, err := note.Sign(&note.Note{Text: text}, logSigner{verifier})
	check.Must(t, err)
	opening := leaf.New(leaf.Intent, now, leaf.Document{Post: "post_1"}).Encode()
	p := policy(t, "quorum none")
	_, err = p.Verify(translog.Proof{Opening: opening, Hashes: tlog.RecordProof{{}},
		Checkpoint: string(signed)}.Encode())
	check.WantCode(t, err, "evidence_malformed")
	from, err := torchwood.NewTileFS(fstest.MapFS{"checkpoint": {Data: signed}})
	check.Must(t, err)
	_, err = translog.Audit(t.Context(), from, p, nil, nil)
	check.WantCode(t, err, "evidence_malformed")
}

type logSigner struct{ note.Verifier }

func (logSigner) Sign(m []byte) ([]byte, error) { return ed25519.Sign(private("L"), m), nil }

func cutLine(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(append(lines[:n:n], lines[n+1:]...), "")
}

func TestPolicyRefusals(t *testing.T) {
	log := "log " + key(t, "L").String() + "\n"
	vkey := logtest.NewWitness(t, "W").Key
	other, err := translog.NewKey("log.example/other", make([]byte, 32), nil)
	check.Must(t, err)
	for name, text := range map[string]string{
		"no log":             "quorum none\n",
		"a key twice":        log + log + "quorum none\n",
		"two logs":           log + "log " + other.String() + "\nquorum none\n",
		"no quorum":          log,
		"one key twice":      log + "witness a " + vkey + "\nwitness b " + vkey + "\ngroup g 2 a b\nquorum g\n",
		"a URL with a name":  log + "witness a " + vkey + " https://u:p@w.example\nquorum a\n",
		"a URL that is none": log + "witness a " + vkey + " ftp://w.example\nquorum a\n",
		"a witness twice":    log + "witness a " + vkey + "\ngroup g any a\ngroup h any a\ngroup q all g h\nquorum q\n",
		"a witness none":     log + "witness none " + vkey + "\nquorum none\n",
		"a group none":       log + "witness a " + vkey + "\ngroup none 1 a\nquorum none\n",
		"a carriage return":  log + "quorum none\r\n",
		"a no-break space":   log + "\u00a0\nquorum none\n",
		"unknown":            log + "watcher a\nquorum none\n",
		"too long":           log + "quorum none\n" + strings.Repeat("#\n", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := translog.ParsePolicy([]byte(text))
			check.WantCode(t, err, "config_malformed")
		})
	}
}

func FuzzParseProof(f *testing.F) {
	f.Add(golden(f, "intent.tlog-proof"))
	p, err := translog.ParsePolicy(golden(f, "policy"))
	check.Must(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		if parsed, err := translog.ParseProof(text); err == nil && !bytes.Equal(parsed.Encode(), text) {
			t.Errorf("%q is encoded as %q", text, parsed.Encode())
		}
		_, _ = p.Verify(text)
	})
}

func FuzzParsePolicy(f *testing.F) {
	f.Add(golden(f, "policy"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = translog.ParsePolicy(text) })
}
