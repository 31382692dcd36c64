package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/upstream"
)

// stalled is an agent that does not take its answer.
type stalled struct {
	*httptest.ResponseRecorder
	once           sync.Once
	offered, taken chan struct{}
}

func (s *stalled) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.offered) })
	<-s.taken
	return s.ResponseRecorder.Write(b)
}

// TestStalledAnswerKeepsNoTurn: a session that does not take its answers does not slow the reading of others' texts.
func TestStalledAnswerKeepsNoTurn(t *testing.T) {
	procs := runtime.GOMAXPROCS(1) // so that one text is read at a time
	r := newReceiptsRig(t, answerModels)
	runtime.GOMAXPROCS(procs)
	base, err := url.Parse(r.base)
	must(t, err)
	port, err := strconv.ParseUint(base.Port(), 10, 16)
	must(t, err)
	serve := func(w http.ResponseWriter, body string) {
		q := httptest.NewRequest("POST", r.base+"/v1/chat/completions", strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		target := upstream.Target{Scheme: "https", Host: base.Hostname(), Port: uint16(port)}
		r.pipeline.ServeHTTP(w,
			q.WithContext(intercept.WithRoute(q.Context(), intercept.Route{Target: target})))
	}
	first := &stalled{ResponseRecorder: httptest.NewRecorder(), offered: make(chan struct{}), taken: make(chan struct{})}
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(first.taken)
	calls.Go(func() { serve(first, askModel) })
	<-first.offered
	long := strings.Repeat("x", 80<<10)
	for range 2 {
		calls.Go(func() {
			serve(httptest.NewRecorder(), strings.Replace(askModel, secretText, long, 1))
		})
	}
	time.Sleep(100 * time.Millisecond) // both wait for the first now, for a second
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done, err := r.pipeline.bodies.Turn(ctx, "other", len(long))
	if err != nil {
		t.Fatalf("another session gets no turn: %v", err)
	}
	done()
}
