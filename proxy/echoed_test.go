package proxy

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
)

// newKeyedRig has a post and other calls with a credential.
func newKeyedRig(t *testing.T, up *httptest.Server, log *zap.Logger) *postRig {
	p := newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		base := "https://" + at(0, up)
		post := matching(t, base+"/posts", "POST")
		keyed := matching(t, base+"/**", "GET", "HEAD", "PUT")
		actions[0].Match = post
		o.Rules = rulesFor(t, actions[:1],
			[]rules.Egress{{Name: "keyed", Match: keyed, Credential: actions[0].Credential}})
		o.Transport, o.Log = newTestTransport(t, up), log
	})
	p.base = "https://" + at(0, up)
	return p
}

// An upstream that repeats the request does not show the agent the credential, and the record says so.
func TestEchoedCredential(t *testing.T) {
	authorization := func(r *http.Request) string { return r.Header.Get("Authorization") }
	answers := []struct {
		name, code, body string // body precedes the credential
		status           int    // as the agent sees it
		write            func(w http.ResponseWriter, r *http.Request)
	}{
		{"in a header", "answer_withheld", "", 502, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Seen", authorization(r))
		}},
		{"in a redirect", "answer_withheld", "", 502, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/login?next="+url.QueryEscape(authorization(r)))
			w.WriteHeader(http.StatusFound)
		}},
		{"in a body", "answer_withheld", "", 200, func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"headers":{"Authorization":%q}}`, authorization(r))
		}},
		{"in a body with a length", "answer_withheld", "", 200, func(w http.ResponseWriter, r *http.Request) {
			body := strings.Repeat(" ", 1000) + authorization(r)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
		}},
		{"in an event, in two pieces", "answer_withheld", "data: 1\n\ndata: Bearer ", 200,
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, piece := range []string{"data: 1\n\n", "data: " + authorization(r)[:20], authorization(r)[20:] + "\n\n"} {
					flush(w, piece)
				}
			}},
		{"in a trailer", "answer_withheld", "ok\n", 200, func(w http.ResponseWriter, r *http.Request) {
			flush(w, "ok\n")
			w.Header().Set(http.TrailerPrefix+"X-Seen", authorization(r))
		}},
		{"as the name of a trailer", "answer_withheld", "", 502, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", strings.TrimPrefix(authorization(r), "Bearer "))
			flush(w, "ok\n")
		}},
		{"compressed", "answer_withheld", "", 502, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, authorization(r))
			_ = z.Close()
		}},
	}
	for _, inner := range []protocol{http1, http2} {
		for _, outer := range []protocol{http1, http2} {
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				for _, answer := range answers {
					if answer.name == r.Header.Get("X-Answer") {
						answer.write(w, r)
					}
				}
			}, outer)
			defer up.Close()
			core, lines := observer.New(zapcore.DebugLevel)
			p := newKeyedRig(t, up.Server, zap.New(core))
			client := p.rig.Client(inner).Transport
			calls := 0
			for _, answer := range answers {
				for _, method := range []string{"POST", "PUT"} {
					t.Run(fmt.Sprintf("%s, %s to %s, %s", answer.name, inner, outer, method), func(t *testing.T) {
						req, err := http.NewRequest(method, p.base+"/posts", strings.NewReader("{}"))
						must(t, err)
						req.Header = http.Header{"Content-Type": {"application/json"}, "X-Answer": {answer.name}}
						resp, err := client.RoundTrip(req)
						var body []byte
						if err == nil { // an answer cut at once may have no header
							body, err = io.ReadAll(resp.Body)
							_ = resp.Body.Close()
							if resp.StatusCode != answer.status {
								t.Errorf("status %d", resp.StatusCode)
							}
						}
						calls++
						post, n := p.record.last()
						if n != calls || int(up.Requests.Load()) != calls || post.Code != answer.code ||
							post.State != ledger.StateForwarded || post.Status == 0 || post.Status == 502 {
							t.Errorf("%d calls, %d records, the last %s, status %d, code %q", up.Requests.Load(), n, post.State, post.Status,
								post.Code)
						}
						switch {
						case answer.status == 502 && (err != nil || !strings.Contains(string(body), `"code":"`+answer.code+`"`)):
							t.Errorf("the agent got %q, %v", body, err)
						case answer.status != 502 && (err == nil || !strings.HasPrefix(answer.body, string(body))):
							t.Errorf("the agent got %q, and sees that it is not whole by %v", body, err)
						}
						if all := fmt.Sprint(resp, string(body), post, lines.All()); strings.Contains(strings.ToLower(all),
							secretToken[:20]) {
							t.Errorf("the credential stands in %s", all)
						}
					})
				}
			}
		}
	}
}

// Any other answer comes through unchanged and without delay.
func TestAnswersToACredential(t *testing.T) {
	for _, inner := range []protocol{http1, http2} {
		for _, outer := range []protocol{http1, http2} {
			t.Run(string(inner)+" to "+string(outer), func(t *testing.T) {
				next := make(chan struct{})
				up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", "identity")
					w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
					w.Header().Set("X-Asked",
						r.Header.Get("Accept-Encoding")+r.Header.Get("Range")+r.Header.Get("If-Range")+r.Header.Get("Accept-Charset"))
					if r.URL.Path == "/events" {
						w.Header().Set("Content-Type", "text/event-stream")
						flush(w)
						for {
							select {
							case _, more := <-next:
								if !more {
									return
								}
							case <-r.Context().Done():
								return
							}
							flush(w, "data: "+secretToken[:20]+"\n\n")
						}
					}
					_, _ = io.WriteString(w, strings.Repeat("aB3-", 50000)+secretToken[:20])
				}, outer)
				defer up.Close()
				p := newKeyedRig(t, up.Server, zap.NewNop())
				p.client = p.rig.Client(inner)
				asked := []string{"Accept-Encoding", "gzip, br", "Range", "bytes=0-9", "If-Range", `"a"`,
					"Accept-Charset", "utf-16"}
				resp, body := p.send("GET", "/x", "", asked...)
				if resp.StatusCode != 200 || body != strings.Repeat("aB3-", 50000)+secretToken[:20] ||
					resp.Trailer.Get("X-Sum") != "1" || resp.Header.Get("X-Asked") != "identity" {
					t.Errorf("status %d, %d bytes, header %v, trailers %v", resp.StatusCode, len(body), resp.Header,
						resp.Trailer)
				}
				if resp, _ := p.send("HEAD", "/x", "", asked...); resp.StatusCode != 200 ||
					resp.Header.Get("X-Asked") != "identity" {
					t.Errorf("HEAD: status %d, header %v", resp.StatusCode, resp.Header)
				}
				resp = p.start(t.Context(), "GET", "/events", "")
				events := bufio.NewReader(resp.Body)
				for range 3 { // each event arrives before the next is made
					next <- struct{}{}
					for _, want := range []string{"data: " + secretToken[:20] + "\n", "\n"} {
						if line, err := events.ReadString('\n'); err != nil || line != want {
							t.Fatalf("got %q, %v", line, err)
						}
					}
				}
				close(next)
				if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
					t.Errorf("after the events: %q, %v", rest, err)
				}
			})
		}
	}
}

func TestAnswersWithoutACredential(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding")+r.Header.Get("Range"))
	}, nil)
	if resp, body := p.send("GET", "/x", "", "Accept-Encoding", "gzip", "Range", "bytes=0-9"); resp.StatusCode != 206 ||
		resp.Header.Get("Content-Encoding") != "gzip" || body != "gzipbytes=0-9" {
		t.Errorf("status %d, header %v, body %q", resp.StatusCode, resp.Header, body)
	}
}
