package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy/rules"
)

// A request sent before the previous answer does not follow from it.
func TestPipelinedTurnaround(t *testing.T) {
	host := func(r *receiptsRig) string { return strings.TrimPrefix(r.base, "https://") }
	request := func(r *receiptsRig) string {
		return fmt.Sprintf(
			"POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			host(r), len(askModel), askModel)
	}
	for name, tt := range map[string]struct {
		ahead bool
		want  string
	}{
		"one after the other": {false, interaction.StateObserved},
		"sent ahead":          {true, interaction.StateNotMeasured},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiptsRig(t, answerModels)
			tunnel, err := r.Tunnel(host(r), strings.Split(host(r), ":")[0], http1)
			must(t, err)
			defer tunnel.Close()
			from := bufio.NewReader(tunnel)
			write := func(text string) {
				_, err := io.WriteString(tunnel, text)
				must(t, err)
			}
			read := func() {
				resp, err := http.ReadResponse(from, nil)
				must(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				must(t, err)
				must(t, resp.Body.Close())
			}
			if tt.ahead {
				write(request(r) + request(r))
				read()
			} else {
				write(request(r))
				read()
				write(request(r))
			}
			read()
			if f := r.chain(t, 2)[1].Model.Figures.Turnaround; f.State != tt.want {
				t.Errorf("the second call has %+v, want %s", f, tt.want)
			}
		})
	}
}

// A stream without its own end is not completed, and the receipt says whether the agent left.
func TestWhoEndedTheStream(t *testing.T) {
	const finished = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":6}}`
	for name, tt := range map[string]struct {
		events []string
		leaves bool // the agent, after these events
		breaks bool // the upstream
		want   string
		tokens interaction.Figure
	}{
		"whole": {[]string{finished, usage, "[DONE]"}, false, false, interaction.OutcomeCompleted,
			interaction.Declared(6)},
		"no end": {[]string{finished, usage}, false, false, interaction.OutcomeCut,
			interaction.NotMeasured},
		"broken after the finish reason": {[]string{finished}, false, true, interaction.OutcomeCut,
			interaction.NotMeasured},
		"broken after the end": {[]string{finished, usage, "[DONE]"}, false, true, interaction.OutcomeCut,
			interaction.NotMeasured},
		"left after the finish reason": {[]string{finished}, true, false, interaction.OutcomeLeft,
			interaction.NotMeasured},
		"left after the usage": {[]string{finished, usage}, true, false, interaction.OutcomeLeft,
			interaction.NotMeasured},
		"left after the end of the stream": {[]string{finished, usage, "[DONE]"}, true, false,
			interaction.OutcomeCompleted, interaction.Declared(6)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range tt.events {
					fmt.Fprintf(w, "data: %s\n\n", e)
				}
				flush(w)
				if tt.leaves {
					<-req.Context().Done()
				}
				if tt.breaks {
					panic(http.ErrAbortHandler)
				}
			})
			resp := r.start(t.Context(), "POST", "/v1/chat/completions", askModel)
			lines := bufio.NewScanner(resp.Body)
			for range 2 * len(tt.events) { // each is followed by an empty line
				lines.Scan()
			}
			if !tt.leaves {
				for lines.Scan() {
				}
			}
			must(t, resp.Body.Close())
			got := r.chain(t, 1)[0]
			if got.Outcome != tt.want || got.Model.Figures.OutputTokens != tt.tokens {
				t.Errorf("%s with %+v, want %s with %+v", got.Outcome, got.Model.Figures.OutputTokens, tt.want,
					tt.tokens)
			}
		})
	}
}

// A deployment named in the path wins over the body's model.
func TestModelOfThePath(t *testing.T) {
	r := newReceiptsRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	})
	r.reload(rules.Egress{Name: "azure", Match: matching(t, r.base+"/openai/deployments/{name}/chat/completions", "POST"),
		Observe: chat})
	r.send("POST", "/openai/deployments/small/chat/completions", askModel) // asks for gpt-5
	if got := r.chain(t, 1)[0].Model; got.Model != "small" || got.AnsweredBy != "small-1" {
		t.Errorf("the receipt says that %q was asked and that %q has answered", got.Model, got.AnsweredBy)
	}
}
