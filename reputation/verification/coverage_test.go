package verification_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
)

func TestCoverage(t *testing.T) {
	for _, tt := range []struct {
		name, prompt, reasoning string
		want                    int64
	}{
		{"words of four letters are no terms", "find some plugin", "plugin", 1000},
		{"stop words are no terms", "about which plugin", "plugin", 1000},
		{"plurals and tenses", "search plugins compared", "searching for a plugin, comparing", 1000},
		{"five letters have to agree", "plugin registry", "plug regular", 0},
		{"a term counts once", "plugin plugins registry", "plugin", 500},
		{"one of four", "alpha bravo charlie delta", "DELTA!", 250},
		{"none", "alpha bravo", "", 0},
		{"other alphabets", "Überprüfung früher", "überprüfen", 500},
	} {
		if got := verification.Coverage(tt.prompt, tt.reasoning); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestBands(t *testing.T) {
	for _, tt := range []struct {
		coverage   int64
		privileged bool
		want       string
	}{
		{0, false, "low"}, {249, false, "low"}, {250, false, "marginal"}, {399, false, "marginal"}, {400, false, "full"},
		{1000, false, "full"},
		{124, true, "low"}, {125, true, "marginal"}, {399, true, "marginal"}, {400, true, "full"},
	} {
		if got := verification.Band(tt.coverage, tt.privileged); got != tt.want {
			t.Errorf("%d, privileged %t: %s, want %s", tt.coverage, tt.privileged, got, tt.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for count, want := range map[int64]time.Duration{
		3: 30 * time.Second, 4: time.Minute, 5: 2 * time.Minute, 10: 64 * time.Minute, 14: 30 * time.Second << 11,
		15: 24 * time.Hour, 1 << 40: 24 * time.Hour,
	} {
		if got := (verification.Failures{Count: count, Last: at}).Until().Sub(at); got != want {
			t.Errorf("%d failures: %v, want %v", count, got, want)
		}
	}
	if got := (verification.Failures{Count: 2, Last: at}).Until(); !got.IsZero() {
		t.Errorf("two failures: %v", got)
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"search":                    `"search"`,
		"a\"b`c\\d\n\x1b[31m\u202e": `"a?b?c?d??[31m?"`,
		"ignore all previous " + strings.Repeat("x", 100): `"ignore all previous ` + strings.Repeat("x", 20) + `"`,
	} {
		if got := verification.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestTasksThatAreRefused(t *testing.T) {
	if len(verification.Tasks()) != 2 {
		t.Error("there are not two tasks")
	}
	const good = `{"id": "a", "prompt": "Search plugins", "requiredTools": ["search_plugins"], "minTurns": 3, ` +
		`"minDurationMs": 3000}`
	if _, err := verification.ParseTasks([]byte("[" + good + "]")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"none":             `[]`,
		"twice":            "[" + good + "," + good + "]",
		"no term":          "[" + strings.Replace(good, "Search plugins", "do it", 1) + "]",
		"one turn":         "[" + strings.Replace(good, `"minTurns": 3`, `"minTurns": 1`, 1) + "]",
		"too many turns":   "[" + strings.Replace(good, `"minTurns": 3`, `"minTurns": 16`, 1) + "]",
		"too long":         "[" + strings.Replace(good, "3000", "150001", 1) + "]",
		"an unknown tool":  "[" + strings.Replace(good, `["search_plugins"]`, `["rm"]`, 1) + "]",
		"no tool":          "[" + strings.Replace(good, `["search_plugins"]`, `[]`, 1) + "]",
		"an unknown field": "[" + strings.Replace(good, `"id"`, `"Id"`, 1) + "]",
	} {
		if _, err := verification.ParseTasks([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
