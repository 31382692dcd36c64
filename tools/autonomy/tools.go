package autonomy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// tool is a tool with its time and size of result.
type tool struct {
	name   string
	takes  time.Duration // median
	spread float64       // of its logarithm
	words  float64       // median of its result
	member string        // of its arguments, besides a value
}

// toolset is the tools of a kind of agent, most used first.
type toolset struct {
	domain string
	server string // MCP server behind the mediator, where calls are relayed
	tools  []tool
}

// Times of commands are spread as those of coding agents are: see the README.
var (
	coding = toolset{"code", "tools.internal:443", []tool{
		{"bash", 850 * time.Millisecond, 2.2, 60, "text"}, {"read_file", 60 * time.Millisecond, 0.8, 220, ""},
		{"edit_file", 90 * time.Millisecond, 0.7, 12, "text"},
		{"grep", 140 * time.Millisecond, 0.9, 70, "query"}, {"run_tests", 9 * time.Second, 1.3, 120, ""},
		{"list_dir", 30 * time.Millisecond, 0.6, 40, ""},
	}}
	searching = toolset{"research", "search.internal:443", []tool{
		{"web_search", 900 * time.Millisecond, 0.5, 140, "query"}, {"fetch_page", 1300 * time.Millisecond, 0.9, 420, ""},
		{"note", 20 * time.Millisecond, 0.5, 4, "text"},
		{"query_table", 300 * time.Millisecond, 1.0, 90, "query"},
	}}
	helping = toolset{"support", "crm.internal:443", []tool{
		{"lookup_order", 180 * time.Millisecond, 0.6, 50, ""}, {"search_articles", 250 * time.Millisecond, 0.5, 120, "query"},
		{"update_ticket", 220 * time.Millisecond, 0.5, 8, "text"},
		{"issue_refund", 450 * time.Millisecond, 0.7, 8, ""},
	}}
	operating = toolset{"operations", "ops.internal:443", []tool{
		{"query_metrics", 400 * time.Millisecond, 0.9, 90, "query"}, {"read_logs", 700 * time.Millisecond, 1.0, 260, "query"},
		{"describe", 150 * time.Millisecond, 0.6, 80, ""},
		{"restart", 6 * time.Second, 0.9, 10, ""}, {"open_ticket", 500 * time.Millisecond, 0.5, 8, "text"},
	}}
	accounting = toolset{"finance", "books.internal:443", []tool{
		{"sql", 350 * time.Millisecond, 1.1, 110, "query"}, {"read_document", 120 * time.Millisecond, 0.7, 300, ""},
		{"write_entry", 200 * time.Millisecond, 0.5, 10, "text"},
	}}
)

func (s toolset) names() (out []string) {
	for _, t := range s.tools {
		out = append(out, t.name)
	}
	return out
}

func (s toolset) named(name string) tool {
	for _, t := range s.tools {
		if t.name == name {
			return t
		}
	}
	return s.tools[0]
}

// workspace remembers names in results, which later calls ask for.
type workspace struct {
	*writer
	toolset
	known   []string
	follows float64 // probability that a call asks for a known name
}

func newWorkspace(d random, s toolset) *workspace {
	b := &workspace{writer: newWriter(d, s.domain, false), toolset: s, follows: 0.6 + 0.35*d.Float64()}
	b.known = []string{b.name(), b.name()}
	return b
}

// callID returns the id of a tool call.
func (d random) callID() string {
	return fmt.Sprintf("call_%016x%08x", d.Uint64(), d.Uint32())
}

// call returns a model's tool call.
func (b *workspace) call() use {
	t := favour(b.random, b.tools)
	value := b.name()
	if b.chance(b.follows) { // the last results are the likeliest
		value = b.known[len(b.known)-1-min(len(b.known)-1, int(b.rare(3)))]
	}
	arguments := map[string]any{"path": value}
	if t.member != "" {
		arguments[t.member] = b.text(b.count(8, 0.7))
	}
	if b.chance(0.2) {
		arguments["limit"] = 10 * (1 + b.IntN(30))
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		raw = []byte("{}") // of no text here
	}
	return use{b.callID(), t.name, string(raw)}
}

// run returns a tool's result and its time.
func (b *workspace) run(u use) (string, time.Duration) {
	t := b.named(u.tool)
	var out strings.Builder
	words := b.count(t.words, 0.8)
	for range 1 + b.IntN(4) {
		name := b.name()
		b.known = append(b.known, name)
		fmt.Fprintf(&out, "%s: %s\n", name, b.text(words/4))
	}
	if b.domainIs("code") {
		out.WriteString(b.code(words / 16))
	}
	return out.String(), min(b.about(t.takes, t.spread), 2*time.Hour)
}

func (b *workspace) domainIs(name string) bool { return b.toolset.domain == name }
