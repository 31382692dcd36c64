package receipts_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/test/ledgertest"
)

// asksFor makes an answer with tool calls, each an id and arguments.
func asksFor(text string, calls ...string) string {
	var list []string
	for i := 0; i < len(calls); i += 2 {
		list = append(list,
			fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"look","arguments":%q}}`, calls[i], calls[i+1]))
	}
	return fmt.Sprintf(
		`{"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":%q,"tool_calls":[%s]},`+
			`"finish_reason":"stop"}]}`, text, strings.Join(list, ","))
}

func asking(messages ...string) string {
	return `{"model":"m","tools":[{"type":"function","function":{"name":"look"}}],"messages":[` +
		strings.Join(messages, ",") + `]}`
}

func user(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

func result(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

func assistant(text, id, arguments string) string {
	return fmt.Sprintf(
		`{"role":"assistant","content":%q,"tool_calls":[{"id":%q,"type":"function","function":{"name":"look",`+
			`"arguments":%q}}]}`, text, id, arguments)
}

func (r *rig) say(c *receipts.Chain, request, answer string) interaction.Receipt {
	r.Helper()
	r.mustAsk(c, request).answer(r, answer)
	h := r.settled(c)
	return r.read("ses_1", int(h.Number))[h.Number-1]
}

func TestUnknownMembers(t *testing.T) {
	r := newRig(t)
	got := r.say(r.chain("ses_1"), `{"shiny":1,`+asking(user("hello"))[1:], asksFor("", "call_1", "{}"))
	const claim = "model_call.unknown_members"
	if !slices.Equal(got.Model.UnknownMembers, []string{"shiny"}) || !slices.Contains(got.Observed, claim) {
		t.Errorf("%v, observed %v", got.Model.UnknownMembers, got.Observed)
	}
}

func TestFigures(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	o, d := interaction.Observed, interaction.Declared
	first := user("find the order of Ada")
	one := r.say(c, asking(first), asksFor("I will look that up.", "call_1", `{"name":"Ada"}`))
	f := one.Model.Figures
	if f.NewInputWords != o(5) || f.OutputWords != o(5) || f.ToolCallsMade != o(1) || f.Depth != d(1) ||
		f.DepthRelayed != o(0) || f.SelfReferences != o(0) || f.UnmatchedResults != o(0) ||
		f.Turnaround != interaction.NotMeasured {
		t.Errorf("the first call: %+v", f)
	}
	if f.InputTokens.State != interaction.StateEstimated || f.SampleBytes != interaction.NotMeasured ||
		f.HostedCalls != d(0) {
		t.Errorf("the first call: %+v", f)
	}
	// The same arguments in another spelling, through the mediator.
	r.relay(c, `{ "name": "Ada" }`, `{"content":[{"text":"order ord-4711 is open"}]}`)
	second := []string{first, assistant("I will look that up.", "call_1", `{"name":"Ada"}`),
		result("call_1", `{"order":"ord-4711","items":3}`)}
	two := r.say(c, asking(second...), asksFor("And now the items.", "call_2", `{"order":"ord-4711"}`))
	f = two.Model.Figures
	if f.SelfReferences != o(2) || f.UnmatchedResults != o(0) || f.Depth != d(2) || f.DepthRelayed != o(1) ||
		f.Turnaround.State != interaction.StateObserved {
		t.Errorf("the second call: %+v", f)
	}
	id := one.Model.ToolCalls[0].ID
	if len(two.Model.ReturnedCalls) != 1 || two.Model.ReturnedCalls[0] != id || two.RelayedCount != 1 ||
		two.Relayed[0] !=
			(interaction.RelayedCall{Host: "mcp.example.com:443", Tool: "look",
				Arguments: one.Model.ToolCalls[0].Arguments,
				CallID:    id}) {
		t.Errorf("what comes back: %v, %+v", two.Model.ReturnedCalls, two.Relayed)
	}
	third := append(second, assistant("And now the items.", "call_2", `{"order":"ord-4711"}`),
		result("call_2", "item sku-00991 in blue"), result("call_9", "an invention"))
	three := r.say(c, asking(third...),
		asksFor("", "call_3", `{"query":"where is sku-00991?"}`, "call_4", `{"name":"Ada"}`))
	f = three.Model.Figures
	if f.Depth != d(3) || f.DepthRelayed != o(0) || f.ToolCallsMade != o(2) || f.UnmatchedResults != o(1) ||
		f.SelfReferences != o(2) || three.RelayedCount != 0 {
		t.Errorf("the third call: %+v", f)
	}
	if calls := three.Model.ToolCalls; calls[1].Arguments != one.Model.ToolCalls[0].Arguments ||
		calls[0].Arguments == calls[1].Arguments {
		t.Errorf("the same tool with the same arguments: %+v", calls)
	}
	if again := r.say(c, asking(third...), answer).Model.Figures; again.NewInputWords != o(0) ||
		again.SelfReferences != o(0) || again.Depth != d(0) || again.ToolCallsMade != o(0) {
		t.Errorf("what is sent again: %+v", again)
	}
}

func TestNewWords(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	r.say(c, asking(user("find the order")), asksFor("I will look", "call_1", "{}", "call_2", "{}"))
	f := r.say(c,
		asking(result("call_1", "find the order"), result("call_2", "it is open now"), user("thanks a lot"),
			user("thanks a lot")), answer).Model.Figures
	if f.NewInputWords != interaction.Observed(4+3) {
		t.Errorf("%+v words are new", f.NewInputWords)
	}
}

func TestIDsThatAreTexts(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	long := strings.Repeat("thought=", 1000)
	made := r.say(c, hello, asksFor("", "call|1 a", "{}", long, "{}")).Model.ToolCalls
	got := r.say(c, asking(result("call|1 a", "x"), result(long, "y"), result("call|1 b", "z")), answer).Model
	if f := got.Figures; f.UnmatchedResults != interaction.Observed(1) || len(got.ReturnedCalls) != 2 ||
		got.ReturnedCalls[0] != made[0].ID || got.ReturnedCalls[1] != made[1].ID {
		t.Errorf("%+v without a call, %v of %+v", f.UnmatchedResults, got.ReturnedCalls, made)
	}
}

func (r *rig) relay(c *receipts.Chain, arguments, gave string) {
	r.keeper.Relay(c, receipts.Relayed{Host: "mcp.example.com:443", Tool: "look", Arguments: []byte(arguments),
		Gave: c.Values([]byte(gave))})
}

// TestDepthRelayed checks that calls which the agent makes by itself add no depth, and that a call by a model is one
// step, however often the agent repeats it.
func TestDepthRelayed(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	for i := range 5 {
		r.relay(c, fmt.Sprintf(`{"text":"value-%d value-%d"}`, i, i+1), fmt.Sprintf(`"value-%d"`, i+1))
	}
	const arguments = `{"text":"value-5"}`
	for i, want := range []int64{0, 1} {
		f := r.say(c, hello, asksFor("I look.", fmt.Sprint("call_", i), arguments)).Model.Figures
		if f.DepthRelayed != interaction.Observed(want) {
			t.Errorf("the path has the length %+v, want %d", f.DepthRelayed, want)
		}
		for range 5 { // the tool returns its input
			r.relay(c, arguments, arguments)
		}
	}
}

func TestSelfReferences(t *testing.T) {
	as := func(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }
	const said = "good day to you"
	for name, tt := range map[string]struct {
		messages []string
		want     int64
	}{
		"the model's own words":          {[]string{as("assistant", said)}, 1},
		"the same, twice":                {[]string{as("assistant", said), as("assistant", said)}, 1},
		"a user's message":               {[]string{as("user", said)}, 0},
		"a system's message":             {[]string{as("system", said)}, 0},
		"a developer's message":          {[]string{as("developer", said)}, 0},
		"the result of a tool":           {[]string{result("call_1", said)}, 0},
		"a user's, and then the model's": {[]string{as("user", said), as("assistant", said)}, 1},
		"what no model has said":         {[]string{as("assistant", "good night")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.chain("ses_1")
			r.say(c, hello, answer)
			if f := r.say(c, asking(tt.messages...), answer).Model.Figures; f.SelfReferences != interaction.Observed(tt.want) {
				t.Errorf("%+v, want %d", f.SelfReferences, tt.want)
			}
		})
	}
}

func TestSample(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	text := strings.Repeat("one and two ", 342)[:4096] // 1,024 words and a part
	f := r.say(c, hello, asksFor(text[:4000])).Model.Figures
	if f.SampleBytes != interaction.NotMeasured || f.WordEntropy != interaction.NotMeasured {
		t.Errorf("of 4,000 bytes: %+v", f)
	}
	f = r.say(c, hello, asksFor(text[4000:])).Model.Figures
	// Three words of equal frequency have log2(3) = 1.585 bits. Miller and Madow add 2 / (2 · 1,024 · ln 2), and the
	// cut word a little.
	if f.SampleBytes != interaction.Observed(4096) || f.WordEntropy.Value < 1580 || f.WordEntropy.Value > 1610 ||
		f.Compression.Value < 5 || f.Compression.Value > 30 {
		t.Errorf("of 4 KiB: %+v", f)
	}
	for range 9 {
		f = r.say(c, hello, asksFor(text)).Model.Figures
	}
	if f.SampleBytes != interaction.Observed(32<<10) {
		t.Errorf("of 40 KiB: %+v", f)
	}
	for i := range 4 { // models beyond the fourth have no sample
		other := strings.Replace(hello, `"m"`, fmt.Sprintf(`"m%d"`, i), 1)
		f = r.say(c, other, asksFor(text)).Model.Figures
	}
	if f.SampleBytes != interaction.NotMeasured {
		t.Errorf("of a fifth model: %+v", f)
	}
}

func TestBounds(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	var blocks []string
	for i := range 1000 {
		blocks = append(blocks, user(fmt.Sprint("block ", i)))
	}
	for i := range 5 {
		f := r.say(c, asking(append(blocks, user(fmt.Sprint("more ", i)))...), answer).Model.Figures
		if f.NewInputWords.State != interaction.StateObserved {
			t.Fatalf("call %d: %+v", i, f)
		}
	}
	for i := range 1100 { // more than are kept of one request
		blocks = append(blocks, user(fmt.Sprint("other ", i)))
	}
	f := r.say(c, asking(blocks...), asksFor("x", "call_1", "{}")).Model.Figures
	if f.NewInputWords != interaction.NotMeasured || f.SelfReferences != interaction.NotMeasured ||
		f.Depth != interaction.NotMeasured || f.DepthRelayed != interaction.Observed(0) ||
		f.InputBytes.State != interaction.StateObserved {
		t.Errorf("of a request with too many blocks: %+v", f)
	}
	for n := range 4 { // more than are kept of a session
		for i := range blocks[:1000] {
			blocks[i] = user(fmt.Sprint("fresh ", n, i))
		}
		r.say(c, asking(blocks[:1000]...), answer)
	}
	if f := r.say(c, hello, answer).Model.Figures; f.NewInputWords != interaction.NotMeasured ||
		f.UnmatchedResults != interaction.NotMeasured {
		t.Errorf("of a session with too many blocks: %+v", f)
	}
}

func TestHostileNames(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	long := strings.Repeat("x", 5000)
	// characters of three bytes, one of which would be cut
	for _, tool := range []string{long, "\xff\x00x", strings.Repeat("€", 100)} {
		r.keeper.Relay(c, receipts.Relayed{Host: "h", Tool: tool, Arguments: []byte("{")})
	}
	var calls []string
	for i := range 100 {
		calls = append(calls, fmt.Sprint("call_", i), `{"a":"\ud800"`)
	}
	got := r.say(c, hello, strings.Replace(asksFor(long, calls...), "m-1", long, 1)+"")
	if got.Outcome != interaction.OutcomeCompleted || got.Model.Figures.ToolCallsMade != interaction.Observed(100) ||
		len(got.Model.ToolCalls) != interaction.MaxToolCalls {
		t.Errorf("%s, %d calls of %+v", got.Outcome, len(got.Model.ToolCalls), got.Model.Figures.ToolCallsMade)
	}
	huge := r.say(c, hello,
		`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":-1}}`)
	if huge.Model.Figures.InputTokens != interaction.Declared(1<<53-1) {
		t.Errorf("tokens: %+v", huge.Model.Figures.InputTokens)
	}
	named := r.record("egress")
	named.Host = strings.Repeat("x", 200) + ".example.com:443"
	a := r.model(c, receipts.ModelRequest{Record: named, Rule: long})
	must(t, a.Send(t.Context()))
	r.keeper.Relay(c, receipts.Relayed{Host: named.Host, Tool: "look"})
	a.EndModel(ledger.StateFailed, inference.Interaction{}, time.Now())
	r.settled(c)
	chain := r.read("ses_1", 3)
	if far := chain[2]; far.Model.Host != named.Host[len(named.Host)-128:] || far.Relayed[0].Host != far.Model.Host ||
		far.Model.Rule != long[:128] {
		t.Errorf("of a long name: %+v, %+v", far.Model, far.Relayed)
	}
	// A name that is too long is left out: a cut one might be another tool's.
	for n, want := range map[int]int{64: 64, 65: 0, 128: 0} {
		name := strings.Repeat("t", n)
		called := r.say(c, strings.Replace(asking(user("go on")), "look", name, 1),
			strings.Replace(asksFor("", "call_x", "{}"), "look", name, 1))
		if got := called.Model.ToolCalls[0].Tool; got != name[:want] {
			t.Errorf("a tool whose name has %d bytes is called %q", n, got)
		}
	}
	unread := r.say(c, hello, "no JSON")
	if unread.Outcome != interaction.OutcomeNotMeasured || unread.Model.Unread != "malformed" ||
		unread.Model.Figures.OutputBytes != interaction.NotMeasured {
		t.Errorf("an answer that cannot be read: %s, %+v", unread.Outcome, unread.Model)
	}
	either := r.say(c, hello, `{"choices":[{"message":{"Content":"some clients read it"},"finish_reason":"stop"}]}`)
	if either.Model.Figures.OutputBytes != interaction.NotMeasured {
		t.Errorf("an answer in another case: %+v", either.Model.Figures.OutputBytes)
	}
}

func BenchmarkReceipt(b *testing.B) {
	request := read(b, hello, nil)
	observer := inference.Observe(request, time.Now(), inference.Options{
		Key: contentKey[:], Now: time.Now, Take: func(int) bool { return true }, Free: func() {},
	})
	in := observer.Interaction()
	in.Head, in.Sent = time.Now(), time.Now()
	for _, tt := range []struct {
		name   string
		stored bool
		atOnce int
	}{{"signed", false, 1}, {"stored", true, 1}, {"stored, 16 at once", true, 16}} {
		b.Run(tt.name, func(b *testing.B) {
			r := newRig(b)
			c := r.chain("ses_1")
			if !tt.stored {
				r.fault.Ledger = nowhere{}
			}
			b.ReportAllocs()
			b.ResetTimer()
			defer ledgertest.CPU(b)()
			for n := 0; n < b.N; n += tt.atOnce {
				var calls sync.WaitGroup
				for range tt.atOnce {
					rec := r.record("egress")
					calls.Go(func() {
						call := r.model(c, receipts.ModelRequest{Record: rec, Request: request, Body: []byte(hello)})
						must(b, call.Send(b.Context()))
						call.EndModel(ledger.StateForwarded, in, time.Now())
						if _, err := call.Receipt(b.Context()); err != nil {
							b.Error(err)
						}
					})
				}
				calls.Wait()
			}
		})
	}
}
