package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

const (
	// witnessTimeout bounds one request to a witness.
	witnessTimeout = 5 * time.Second
	// maxAsked bounds the requests about one checkpoint that a witness gets in a row.
	maxAsked = 8
	// maxAnswer bounds a witness's answer, in bytes.
	maxAnswer = 8 << 10
	// MaxSkew bounds the error of two clocks, such as those of a log and a witness.
	MaxSkew = 2 * time.Minute
)

// WitnessError says why a witness has not cosigned.
type WitnessError struct {
	Witness string // its name in the policy
	Err     error
}

func (e *WitnessError) Error() string { return "witness " + e.Witness + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *WitnessError) Unwrap() error { return e.Err }

// witness asks one witness to cosign, by c2sp.org/tlog-witness. Each has its own goroutine, so a slow one does not
// delay the others.
type witness struct {
	member
	log  *Log
	work chan ledger.Checkpoint // the newest, if it was not asked about yet
	size int64                  // that it cosigned last, as far as known; used by run

	failure error // of the last attempt; guarded by log.mu
}

// give replaces the checkpoint to ask about next. Only one goroutine at a time calls it.
func (w *witness) give(c ledger.Checkpoint) {
	select {
	case <-w.work:
	default: // it has none
	}
	w.work <- c
}

func (w *witness) run(ctx context.Context) {
	repeat(ctx, w.work, func(c ledger.Checkpoint) error {
		err := w.ask(ctx, c)
		if ctx.Err() == nil {
			w.log.mu.Lock()
			w.failure = err
			w.log.mu.Unlock()
		}
		return err
	}, func(err error) { w.log.o.Failed(&WitnessError{w.name, err}) })
}

// ask gets the witness's cosignature. If the witness knows another size, it asks again from there: meanwhile the
// processes that share the log may have it cosign others.
func (w *witness) ask(ctx context.Context, c ledger.Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	for range maxAsked {
		status, answer, err := w.post(ctx, c)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			lines, err := w.signatures(c, answer)
			if err != nil {
				return err
			}
			w.size = c.Size
			return w.log.cosign(ctx, c.Size, lines)
		case status != http.StatusConflict:
			return refused(status)
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(answer, "\n"), 10, 64)
		switch {
		case err != nil || size < 0:
			return errors.New("it answers 409 without a size")
		case size > c.Size:
			if newer, err := w.behind(ctx, size); err != nil || newer {
				every.Signal(w.log.hurried) // to learn of it: somebody here may wait
				return err
			}
			return contradicted("has %d entries, and the witness %s saw it with %d: it was put back to "+
				"an older state, or another process signs a fork", c.Size, w.name, size)
		case size == w.size && size == c.Size:
			return contradicted("is not the one that the witness %s saw with as many entries", w.name)
		case size == w.size:
			return errors.New("it answers 409, but with the size that the request had")
		}
		w.size = size
	}
	return fmt.Errorf("its size changed %d times between two requests", maxAsked)
}

// behind reports whether another process has signed a tree of that size: it then has it cosigned.
func (w *witness) behind(ctx context.Context, size int64) (bool, error) {
	head, _, err := w.log.store.TreeHead(ctx)
	return head.Size >= size, err
}

func refused(status int) error {
	switch status {
	case http.StatusForbidden, http.StatusNotFound:
		return fmt.Errorf("it answers %d: it does not know this log or its key", status)
	case http.StatusUnprocessableEntity:
		return contradicted("is not the one that the witness saw: it answers 422")
	}
	return fmt.Errorf("it answers %d", status)
}

func (w *witness) post(ctx context.Context, c ledger.Checkpoint) (status int, answer string, err error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", w.size)
	if w.size > 0 && w.size < c.Size {
		tree, err := treeIn(c)
		if err != nil {
			return 0, "", err
		}
		proof, err := tlog.ProveTree(c.Size, w.size, hashes(ctx, w.log.store, tree))
		if err != nil {
			return 0, "", damaged(err)
		}
		for _, h := range proof {
			fmt.Fprintf(&body, "%s\n", h)
		}
	}
	fmt.Fprintf(&body, "\n%s", c.Note)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/add-checkpoint", &body)
	if err != nil {
		return 0, "", err
	}
	response, err := w.log.o.Client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("it answers with more than %d bytes", maxAnswer)
	}
	return response.StatusCode, string(raw), err
}

// signatures returns the lines of the answer that are valid cosignatures of this witness.
func (w *witness) signatures(c ledger.Checkpoint, answer string) (string, error) {
	n, err := note.Open([]byte(c.Note+answer), note.VerifierList(w.verifier, w.log.o.Key.verifier))
	if err == nil {
		for _, s := range n.Sigs {
			if s.Name == w.verifier.Name() && s.Hash == w.verifier.KeyHash() {
				if err := w.checkTime(s); err != nil {
					return "", err
				}
				return fmt.Sprintf("\u2014 %s %s\n", s.Name, s.Base64), nil
			}
		}
		err = errors.New("it holds no cosignature of its key")
	}
	return "", refusal.New("log_unwitnessed", "its answer: %v", err)
}

// checkTime refuses a cosignature that makes each later audit find the log's own times wrong.
func (w *witness) checkTime(s note.Signature) error {
	seconds, err := torchwood.CosignatureTimestamp(s)
	if err != nil {
		return fmt.Errorf("its cosignature: %w", err)
	}
	if at := time.Unix(seconds, 0); at.Sub(w.log.o.Now()).Abs() > MaxSkew {
		return fmt.Errorf("its cosignature has the time %d, which differs from this process's by over %s", seconds,
			MaxSkew)
	}
	return nil
}
