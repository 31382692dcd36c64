package vaultaudit_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/vaultaudit"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func signature(n int) string {
	return "vault:v1:" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %d", n))
}

// line is an entry of a log that shows signatures as they are.
func line(when time.Time, path string, numbers ...int) string {
	type item struct {
		Signature string `json:"signature"`
		Version   int    `json:"key_version"`
		Error     string `json:"error"`
	}
	var batch []item
	for _, n := range numbers {
		if n < 0 {
			batch = append(batch, item{"", 0, "not signed"})
			continue
		}
		batch = append(batch, item{signature(n), 1, ""})
	}
	raw, err := json.Marshal(map[string]any{
		"type": "response", "time": when.Format(time.RFC3339Nano), "auth": map[string]any{"display_name": "approle"},
		"request":  map[string]any{"id": fmt.Sprint("request-", numbers), "path": path, "remote_address": "10.0.0.1"},
		"response": map[string]any{"data": map[string]any{"batch_results": batch}},
	})
	if err != nil {
		panic(err)
	}
	return string(raw) + "\n"
}

func record(started time.Time, numbers ...int) ledger.Record {
	r := ledger.Record{ID: fmt.Sprint("post-", numbers), Started: started}
	b64 := base64.RawURLEncoding.EncodeToString
	for _, n := range numbers {
		r.Artifacts = append(r.Artifacts,
			ledger.Artifact{Name: fmt.Sprint("artifact-", n),
				Token: b64([]byte(`{"alg":"EdDSA","kid":"k:v1","typ":"t"}`)) + "." +
					b64(fmt.Appendf(nil, `{"iat":%d}`, started.Unix())) + "." +
					b64(fmt.Appendf(nil, "signature %d", n))})
	}
	return r
}

func signAt(a *ledger.Artifact, unix int64) {
	parts := strings.Split(a.Token, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d}`, unix))
	a.Token = strings.Join(parts, ".")
}

func each(records ...ledger.Record) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// The differences are "vault REQUEST ITEM" and "record POST ARTIFACT".
func compare(t *testing.T, c vaultaudit.Comparison, files []string,
	records iter.Seq2[ledger.Record, error]) (found []string, s vaultaudit.Summary, notes []string, err error) {
	t.Helper()
	logs := &vaultaudit.Logs{Mount: "transit", Keys: map[string]bool{"k": true}, Note: func(n string) {
		notes = append(notes, n)
	}}
	for i, f := range files {
		logs.Files = append(logs.Files, vaultaudit.Log{Name: fmt.Sprint("file", i), From: strings.NewReader(f)})
	}
	c.Found = func(d vaultaudit.Difference) error {
		if d.Only == vaultaudit.OnlyVault {
			found = append(found, fmt.Sprint("vault ", d.Request, " ", d.Item))
		} else {
			found = append(found, fmt.Sprint("record ", d.Post, " ", d.Artifact))
		}
		return nil
	}
	if c.Until.IsZero() {
		c.Until = noon.Add(time.Hour)
	}
	if c.Window == 0 {
		c.Window = 10 * time.Second
	}
	s, err = c.Run(t.Context(), logs, records)
	if err == nil && (s.Signatures != s.Matched+s.OnlyVault || s.Artifacts != s.Matched+s.OnlyRecord) {
		t.Errorf("the numbers do not add up: %+v", s)
	}
	return found, s, notes, err
}

func TestCompare(t *testing.T) {
	const sign = "transit/sign/k"
	for _, tt := range []struct {
		name                     string
		files                    []string
		records                  []ledger.Record
		c                        vaultaudit.Comparison
		want                     []string
		matched, repeated, other int
	}{
		{name: "a batch for several posts, with one that was not signed",
			files:   []string{line(at(1), sign, 1, -1, 2, 3)},
			records: []ledger.Record{record(at(0.5), 1), record(at(0.6), 2, 3)}, matched: 3},
		{name: "files of two servers, in the order of time",
			files: []string{line(at(1), sign, 1) + line(at(30), sign, 4), line(at(2), sign, 2) +
				line(at(29), sign, 3)},
			records: []ledger.Record{record(at(1), 1), record(at(2), 2), record(at(29), 3), record(at(30), 4)},
			c:       vaultaudit.Comparison{Window: 2 * time.Second}, matched: 4},
		{name: "what only one has", files: []string{line(at(1), sign, 1, 2) + line(at(100), sign, 3)},
			records: []ledger.Record{record(at(1), 1, 7), record(at(101), 3)},
			want:    []string{"record post-[1 7] artifact-7", "vault request-[1 2] 1"}, matched: 2},
		{name: "nothing in the record", files: []string{line(at(1), sign, 1)}, want: []string{"vault request-[1] 0"}},
		{name: "nothing in the log", files: []string{""}, records: []ledger.Record{record(at(1), 1)},
			want: []string{"record post-[1] artifact-1"}},
		{name: "too far apart", files: []string{line(at(1), sign, 1) + line(at(60), sign, 2)},
			records: []ledger.Record{record(at(30), 1), record(at(60), 2)},
			want:    []string{"vault request-[1] 0", "record post-[1] artifact-1"}, matched: 1},
		{name: "made again, as when a connection broke", files: []string{line(at(1), sign, 1) + line(at(2), sign, 1)},
			records: []ledger.Record{record(at(1), 1)}, matched: 1, repeated: 1},
		{name: "made again long afterwards", files: []string{line(at(1), sign, 1) + line(at(300), sign, 1)},
			records: []ledger.Record{record(at(1), 1)}, want: []string{"vault request-[1] 0"}, matched: 1},
		{name: "one artifact in two records", files: []string{line(at(1), sign, 1)},
			records: []ledger.Record{record(at(1), 1), record(at(2), 1)}, want: []string{"record post-[1] artifact-1"},
			matched: 1},
		{name: "the edges of a range",
			files: []string{line(at(9), sign, 1) + line(at(10), sign, 2) + line(at(11), sign, 3) +
				line(at(19), sign, 4) +
				line(at(20), sign, 5)},
			records: []ledger.Record{record(at(9), 2), record(at(19), 5)}, // each a second before
			c:       vaultaudit.Comparison{Since: at(10), Until: at(20), Window: 3 * time.Second},
			want:    []string{"vault request-[3] 0", "vault request-[4] 0"}, matched: 2},
		{name: "other keys, other mounts and other requests",
			files: []string{line(at(1), "transit/sign/registry", 8) + line(at(1), "other/sign/k", 9) +
				line(at(1), "transit/verify/k") +
				strings.Replace(line(at(1), sign, 10), `"type":"response"`, `"type":"request"`, 1)}, other: 1},
		{name: "pairs of which one half lies beside the range",
			files:   []string{line(at(9), sign, 1) + line(at(11), sign, 2) + line(at(20), sign, 3)},
			records: []ledger.Record{record(at(9), 2), record(at(10), 1), record(at(19), 3)},
			c:       vaultaudit.Comparison{Since: at(10), Until: at(20), Window: 3 * time.Second}, matched: 3},
		{name: "after one of a clock that was ahead", files: []string{line(at(90), sign, 1) + line(at(11), sign, 2)},
			c: vaultaudit.Comparison{Since: at(10), Until: at(20)}, want: []string{"vault request-[2] 0"}},
		{name: "other keys beside the range",
			files: []string{line(at(1), "transit/sign/registry", 8) + line(at(15), "transit/sign/registry", 9) +
				line(at(21), "transit/sign/registry", 10)},
			c: vaultaudit.Comparison{Since: at(10), Until: at(20)}, other: 1},
		{name: "with a hash algorithm in the path", files: []string{line(at(1), sign+"/sha2-512", 1)},
			want: []string{"vault request-[1] 0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, s, notes, err := compare(t, tt.c, tt.files, each(tt.records...))
			slices.Sort(found)
			slices.Sort(tt.want)
			if err != nil || !slices.Equal(found, tt.want) || len(notes) != 0 || s.Differ() != (len(tt.want) > 0) {
				t.Errorf("got %q, %+v, %v, %v, want %q", found, s, notes, err, tt.want)
			}
			if s.Matched != tt.matched || s.Repeated != tt.repeated || s.OtherKeys != tt.other {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestCompareRefuses(t *testing.T) {
	whole := line(at(1), "transit/sign/k", 1)
	for name, tt := range map[string]struct{ log, want string }{
		"no JSON":  {whole + "none\n", "file0, line 2: this is not an entry"},
		"no entry": {whole + "{}\n", "file0, line 2: an entry"},
		"a signature without a version": {
			strings.Replace(whole, `"batch_results":[{`, `"signature":"vault:v1:x","none":[{`, 1), "has no version"},
		"a negative version": {strings.Replace(whole, `"key_version":1`, `"key_version":-1`, 1), "has no version"},
		"a long line":        {strings.Repeat("a", 5<<20), "longer than"},
	} {
		_, _, _, err := compare(t, vaultaudit.Comparison{}, []string{tt.log}, each(record(at(1), 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	broken := errors.New("the ledger went away")
	_, _, _, err := compare(t, vaultaudit.Comparison{}, []string{whole}, func(yield func(ledger.Record, error) bool) {
		yield(ledger.Record{}, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	// A token that names a time outside its call, such as that of a slow clock, does not keep anything from being
	// found.
	for _, named := range []int64{99999999999, at(-30).Unix(), at(7200).Unix()} {
		wild := record(at(1), 1, 2)
		signAt(&wild.Artifacts[0], named)
		if found, _, _, err := compare(t, vaultaudit.Comparison{},
			[]string{line(at(1), "transit/sign/k", 1, 2, 3) + line(at(60), "transit/sign/k", 4)},
			each(wild, record(at(2), 3), record(at(60), 4))); err != nil || len(found) != 0 {
			t.Errorf("%d: got %v, %v", named, found, err)
		}
	}
	hashed := strings.ReplaceAll(whole, "vault:v1:", "hmac-sha256:")
	if _, _, _, err := compare(t, vaultaudit.Comparison{}, []string{hashed}, each(record(at(1), 1))); err == nil ||
		!strings.Contains(err.Error(), "the log has hashes of the signatures") {
		t.Errorf("got %v", err)
	}
	// The last line of a log that is being written.
	found, _, notes, err := compare(t, vaultaudit.Comparison{}, []string{whole + whole[:100]}, each(record(at(1), 1)))
	if err != nil || len(found) != 0 || len(notes) != 1 ||
		!strings.Contains(notes[0], "file0: the last line has no end") {
		t.Errorf("got %v, %v, %v", found, notes, err)
	}
}

func differences(t *testing.T, log string, records ...ledger.Record) (found []vaultaudit.Difference,
	s vaultaudit.Summary) {
	t.Helper()
	logs := &vaultaudit.Logs{Mount: "transit", Keys: map[string]bool{"k": true},
		Files: []vaultaudit.Log{{Name: "log", From: strings.NewReader(log)}}}
	s, err := (vaultaudit.Comparison{Until: noon.Add(time.Hour), Window: time.Second,
		Found: func(d vaultaudit.Difference) error {
			found = append(found, d)
			return nil
		}}).Run(t.Context(), logs, each(records...))
	check.Must(t, err)
	return found, s
}

func TestHidden(t *testing.T) {
	const wrap = `"wrap_info":{"token":"hmac-sha256:1","ttl":60,"creation_path":"transit/sign/k"}`
	for _, tt := range []struct{ name, path, rest, want string }{
		{"wrapped", "k", `"response":{` + wrap + `}`, "wrapped"},
		{"wrapped, with a hash algorithm", "k/sha2-512", `"response":{` + wrap + `}`, "wrapped"},
		{"wrapped, with empty data", "k", `"response":{"data":{},` + wrap + `}`, "wrapped"},
		{"wrapped, with what looks like an error", "k", `"response":{"data":{"error":"hmac-sha256:1"},` + wrap + `}`,
			"wrapped"},
		{"no response", "k", `"none":{}`, "left out"},
		{"no data", "k", `"response":{"mount_type":"transit"}`, "left out"},
		{"no signature", "k", `"response":{"data":{"key_version":1}}`, "left out"},
		{"an empty batch", "k", `"response":{"data":{"batch_results":[]}}`, "left out"},
		{"an error", "k", `"error":"1 error occurred","response":{"mount_type":"transit"}`, ""},
		{"an error in the data", "k", `"response":{"data":{"error":"hmac-sha256:1"}}`, ""},
		{"a batch of which none was signed", "k",
			`"response":{"data":{"batch_results":[{"signature":"","key_version":0,"error":"hmac-sha256:1"}]}}`, ""},
		{"another key", "registry", `"response":{` + wrap + `}`, ""},
	} {
		text := `{"type":"response","time":"` + at(1).Format(time.RFC3339) +
			`","auth":{"display_name":"approle"},"request":{"id":"r","path":"transit/sign/` + tt.path +
			`","remote_address":"10.0.0.1"},` + tt.rest + "}\n"
		// the one beside it is compared
		found, s := differences(t, text+line(at(1), "transit/sign/k", 1), record(at(1), 1))
		var want []vaultaudit.Difference
		if tt.want != "" {
			want = []vaultaudit.Difference{
				{Only: vaultaudit.OnlyVault, Time: at(1), Key: "k", Request: "r", By: "approle", Remote: "10.0.0.1",
					Hidden: tt.want}}
		}
		if !slices.Equal(found, want) || s.Matched != 1 || s.OnlyVault != len(want) ||
			s.Signatures != 1+len(want) {
			t.Errorf("%s: got %+v, %+v", tt.name, found, s)
		}
	}
	c := vaultaudit.Comparison{Since: at(100), Until: at(200)}
	early := `{"type":"response","time":"` + at(1).Format(time.RFC3339) +
		`","request":{"path":"transit/sign/k"},"response":{` + wrap + "}}\n"
	if found, s, _, err := compare(t, c, []string{early + strings.ReplaceAll(early, "12:00:01", "12:03:25")},
		each()); err != nil || len(found) != 0 || s.Differ() {
		t.Errorf("beside the range: got %q, %+v, %v", found, s, err)
	}
}

func TestOtherLines(t *testing.T) {
	for _, rest := range []string{
		`"request":{"path":"transit/verify/k"},"response":{"data":{"batch_results":"hmac-sha256:1"}}`,
		`"request":{"path":"secret/app"},"response":{"data":{"signature":["hmac-sha256:1"],"key_version":"3"}}`,
		`"request":{"path":"secret/app","id":7},"auth":"none","error":{"a":1},"response":[]`,
		`"request":{"path":"secret/app"},"response":{"wrap_info":"hmac-sha256:1","data":"hmac-sha256:1"}`,
	} {
		text := `{"type":"response","time":"` + at(1).Format(time.RFC3339) + `",` + rest + "}\n"
		if found, s := differences(t, text+line(at(1), "transit/sign/k", 1), record(at(1), 1)); len(found) != 0 ||
			s.Matched != 1 {
			t.Errorf("%s: got %+v, %+v", rest, found, s)
		}
	}
}

// TestSlowPost compares a post that took long to be judged: its artifacts are younger than those of posts that started
// after it.
func TestSlowPost(t *testing.T) {
	slow := record(at(0), 1, 2)
	signAt(&slow.Artifacts[0], at(0).Unix())
	signAt(&slow.Artifacts[1], at(65).Unix())
	records := []ledger.Record{slow}
	log := line(at(0), "transit/sign/k", 1)
	for i := 3; i < 60; i += 3 {
		records = append(records, record(at(float64(i)), i))
		log += line(at(float64(i)), "transit/sign/k", i)
	}
	log += line(at(65), "transit/sign/k", 2)
	for _, window := range []time.Duration{time.Second, time.Minute} {
		if found, s, _, err := compare(t, vaultaudit.Comparison{Window: window}, []string{log},
			each(records...)); err !=
			nil || len(found) != 0 || s.Matched != len(records)+1 {
			t.Errorf("window %s: got %q, %+v, %v", window, found, s, err)
		}
	}
	// The query begins early enough.
	c := vaultaudit.Comparison{Since: at(60), Until: at(70), Window: time.Second}
	if q := c.Records(); q.Since.After(slow.Started) {
		t.Errorf("got the records since %s", q.Since)
	}
	if found, s, _, err := compare(t, c, []string{log}, each(slow)); err != nil || len(found) != 0 || s.Matched != 1 {
		t.Errorf("in a range: got %q, %+v, %v", found, s, err)
	}
}

// Only what lies within the window is in memory.
func TestCompareHoldsTheWindow(t *testing.T) {
	const n = 30_000
	in, out := io.Pipe()
	go func() {
		for i := range n {
			if _, err := io.WriteString(out, line(at(float64(i)), "transit/sign/k", i)); err != nil {
				return
			}
		}
		out.Close()
	}()
	defer in.Close()
	ahead := 0 // how far the log is read beyond what has been found
	logs := &vaultaudit.Logs{Mount: "transit", Keys: map[string]bool{"k": true},
		Files: []vaultaudit.Log{{Name: "log", From: in}}}
	c := vaultaudit.Comparison{Until: at(n + 1), Window: 20 * time.Second}
	handed := 0
	c.Found = func(d vaultaudit.Difference) error {
		ahead = max(ahead, handed-int(d.Time.Sub(noon)/time.Second))
		return nil
	}
	s, err := c.Run(t.Context(), logs, func(yield func(ledger.Record, error) bool) {
		for i := range n {
			handed = i
			numbers := []int{i}
			if i%100 == 0 {
				numbers = nil // a signature without an artifact
			}
			if !yield(record(at(float64(i)), numbers...), nil) {
				return
			}
		}
	})
	if err != nil || s.OnlyVault != n/100 || s.Matched != n-n/100 || ahead > 30 {
		t.Errorf("%+v, %v; %d seconds ahead", s, err, ahead)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(line(at(1), "transit/sign/k", 1, -1, 2)))
	f.Add([]byte(line(at(1), "transit/sign/k", 1) + "{"))
	f.Add([]byte(
		`{"type":"response","time":"2026-01-01T00:00:00Z","request":{"path":"transit/sign/k"},` +
			`"response":{"data":{"signature":"hmac-sha256:00","key_version":3}}}`))
	f.Add([]byte(
		`{"type":"response","time":"2026-01-01T00:00:00Z","request":{"path":"transit/sign/k"},` +
			`"response":{"wrap_info":{"ttl":60}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		logs := &vaultaudit.Logs{Mount: "transit", Keys: map[string]bool{"k": true}, Note: func(string) {},
			Files: []vaultaudit.Log{{Name: "log", From: strings.NewReader(string(raw))}}}
		for s, err := range logs.Signatures() {
			shown := s.Hidden == "" && strings.HasPrefix(s.Key, "k:v") && s.Value != ""
			hidden := s.Hidden != "" && s.Key == "k" && s.Value == ""
			if err == nil && (!shown && !hidden || s.Time.IsZero()) {
				t.Errorf("got %+v", s)
			}
		}
	})
}

func TestRotations(t *testing.T) {
	entry := func(kind, path, rest string) string {
		return `{"type":"` + kind + `","time":"` + at(1).Format(time.RFC3339) +
			`","auth":{"display_name":"token-owner"},"request":{"id":"r","path":"` + path +
			`","remote_address":"10.0.0.1"}` +
			rest + "}\n"
	}
	log := entry("request", "transit/keys/k/rotate", "") +
		entry("response", "transit/keys/k/rotate", `,"response":{"data":{}}`) +
		entry("response", "transit/keys/k/rotate", `,"error":"permission denied"`) +
		entry("response", "other/keys/k/rotate", "") +
		entry("response", "transit/keys/k", "") + entry("response", "transit/sign/k", "")
	logs := &vaultaudit.Logs{Mount: "transit", Note: func(string) {},
		Files: []vaultaudit.Log{{Name: "log", From: strings.NewReader(log)}}}
	var found []vaultaudit.Difference
	for r, err := range logs.Rotations() {
		check.Must(t, err)
		found = append(found, r.Difference)
	}
	want := []vaultaudit.Difference{{Only: vaultaudit.OnlyVault, Time: at(1), Key: "k", Request: "r", By: "token-owner",
		Remote: "10.0.0.1"}}
	if !slices.Equal(found, want) {
		t.Errorf("got %+v", found)
	}
}
