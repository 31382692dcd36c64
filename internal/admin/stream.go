package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/ledger"
)

const stalled = time.Minute

// writeList answers with a JSON array, an element a line, as it reads them. After an error the caller must break the
// connection, so that a client does not take a part for the whole list.
func writeList(w http.ResponseWriter, records iter.Seq2[ledger.Record, error]) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	conn := http.NewResponseController(w)
	out := bufio.NewWriterSize(patient{w, conn}, 64<<10)
	_, _ = out.WriteString("[")                                    // a bufio.Writer keeps its error until Flush
	if err := errors.Join(out.Flush(), conn.Flush()); err != nil { // the next record may take long to find
		return err
	}
	separator := "\n"
	for r, err := range records {
		if err != nil {
			return err
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator)
		if _, err := out.Write(raw); err != nil {
			return err
		}
		separator = ",\n"
	}
	_, _ = out.WriteString("]\n")
	return out.Flush()
}

// followRecords answers with the calls that end from now on, an [EndedCall] a line, until the client leaves.
func (s *Server) followRecords(w http.ResponseWriter, r *http.Request) {
	selection, err := parseSelection(r.URL.Query())
	if err == nil {
		err = checkFollowed(selection)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	ctx, cancel := endpoint.UntilEnding(r.Context())
	defer cancel()
	follower := s.Ended.Follow()
	defer follower.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	conn := http.NewResponseController(w)
	out := bufio.NewWriterSize(patient{w, conn}, 64<<10)
	for err == nil {
		if err = errors.Join(out.Flush(), conn.Flush()); err != nil { // first the header: the following has begun
			return
		}
		var calls []ledger.Summary
		var missed int
		calls, missed, err = follower.Next(ctx)
		if missed > 0 {
			fmt.Fprintf(out, "{\"missed\":%d}\n", missed)
		}
		for _, c := range calls {
			if selects(selection, c) {
				fmt.Fprintf(out, "{\"call\":%s}\n", c.JSON)
			}
		}
	}
}

// patient writes to a client with a deadline for each part.
type patient struct {
	to   http.ResponseWriter
	conn *http.ResponseController
}

func (p patient) Write(part []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
		return 0, err
	}
	return p.to.Write(part)
}

// Records asks the sidecar at an endpoint for the selected records, and yields them as they come. An error is the last
// item; without one the list is complete.
func Records(ctx context.Context, at string, q ledger.Query) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		fail := func(err error) { yield(ledger.Record{}, err) }
		resp, done, err := send(ctx, at, http.MethodGet, "/v1/posts?"+values(q).Encode(), nil, nil)
		if err != nil {
			fail(err)
			return
		}
		defer done()
		in := json.NewDecoder(resp.Body)
		_, err = in.Token()
		for err == nil && in.More() {
			var r ledger.Record
			if err = in.Decode(&r); err == nil && !yield(r, nil) {
				return
			}
		}
		if err == nil {
			_, err = in.Token()
		}
		if err != nil {
			fail(fmt.Errorf("the list broke off and is incomplete: %w", err))
		}
	}
}

// EndedCall holds an ended call without its evidence, or the number of calls that a slow client has missed.
type EndedCall struct {
	Call   *ledger.Record `json:"call,omitempty"`
	Missed int            `json:"missed,omitempty"`
}

// Ended reads the selected calls from the sidecar at an endpoint as they end. It calls begun once the sidecar has
// started to send, and then each for every answer, until one of the two fails or ctx ends.
func Ended(ctx context.Context, at string, q ledger.Query, begun func() error, each func(EndedCall) error) error {
	if err := checkFollowed(q); err != nil {
		return err
	}
	resp, done, err := send(ctx, at, http.MethodGet, "/v1/posts/ended?"+values(q).Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer done()
	if err := begun(); err != nil {
		return err
	}
	in := json.NewDecoder(resp.Body)
	for {
		var c EndedCall
		if err := in.Decode(&c); err != nil {
			return fmt.Errorf("the sidecar reports no more calls: %w", err)
		}
		if err := each(c); err != nil {
			return err
		}
	}
}
