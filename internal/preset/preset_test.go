package preset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/preset"
	"github.com/actionproof/mediator/test/check"
)

func never(string) bool { return false }

func TestMerge(t *testing.T) {
	p := preset.Preset{Name: "p", Text: `# About
egress:
  - name: reads
    match: {url: "https://a.test/**", methods: [GET]}
    observe: openai-chat
    credential: {prefix: "Bearer ", file: secrets/a}
  # of the second rule
  - name: second
    match: {url: "https://b.test/**", methods: [GET]}
websocketRefusal: close
deny:
  - "https://c.test/**"    # noise
`}
	for _, tt := range []struct{ name, file, want, fails string }{
		{"nothing there", "runtime: r\n", "runtime: r\n\nwebsocketRefusal: close\n\negress:\n" + `  - name: reads
    match: {url: "https://a.test/**", methods: [GET]}
    observe: openai-chat
    # credential: {prefix: "Bearer ", file: secrets/a} # once this file holds it
  # of the second rule
  - name: second
    match: {url: "https://b.test/**", methods: [GET]}

deny:
  - "https://c.test/**" # noise
`, ""},
		{"rules there, with comments", `egress: # mine
- name: mine
  match:
    methods: [GET]
    url: https://a.test/**
  # last

# The key after
websocketRefusal: answer
deny: []
`, `egress: # mine
- name: mine
  match:
    methods: [GET]
    url: https://a.test/**
  observe: openai-chat
  # last
# of the second rule
- name: second
  match: {url: "https://b.test/**", methods: [GET]}

# The key after
websocketRefusal: answer
deny:
  - "https://c.test/**" # noise
`, ""},
		{"a rule with a purpose", `egress:
- name: mine
  comment: why # and since when
  match: {url: "https://a.test/**", methods: [GET]}
  owner: ann
  expires: 2027-01-31
- {name: other, match: {url: "https://b.test/**", methods: [GET]}, owner: ben}
`, `egress:
- name: mine
  comment: why # and since when
  match: {url: "https://a.test/**", methods: [GET]}
  observe: openai-chat
  owner: ann
  expires: 2027-01-31
- {name: other, match: {url: "https://b.test/**", methods: [GET]}, owner: ben}

websocketRefusal: close

deny:
  - "https://c.test/**" # noise
`, ""},
		{"a name taken", "egress:\n  - {name: second, match: {url: x}}\n", "",
			"line 2: the rule second has the same name as a rule of the preset"},
		{"no mapping", "- x\n", "", "is YAML, but has no keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Merge([]byte(tt.file), never)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got %v", err)
				}
				return
			}
			check.Must(t, err)
			if string(got) != tt.want {
				t.Errorf("got\n%s", got)
			}
			if again, err := p.Merge(got, never); err != nil || string(again) != string(got) {
				t.Errorf("a second time: %v\n%s", err, again)
			}
		})
	}
}

// TestAll adds every preset, with and without its secrets, to the configuration of mediator dev.
func TestAll(t *testing.T) {
	for _, secrets := range []bool{false, true} {
		file := configs.Dev["mediator.yaml"]
		for _, p := range preset.All() {
			var err error
			file, err = p.Merge(file, func(string) bool { return secrets })
			check.Must(t, err)
			if p.About == "" || strings.Contains(string(file), preset.Subject) {
				t.Errorf("%s is not complete", p.Name)
			}
		}
		path := filepath.Join(t.TempDir(), "mediator.yaml")
		check.Must(t, os.WriteFile(path, file, 0o600))
		_, err := config.CheckFile(path, false)
		check.Must(t, err)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("egress:\n  - name: x\n    match: {url: y}\n# z\n")
	f.Add("deny: [\n]\nactions: &a []\negress: *a\n")
	f.Fuzz(func(t *testing.T, file string) {
		for _, p := range preset.All() {
			_, _ = p.Merge([]byte(file), never)
		}
	})
}
