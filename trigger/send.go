package trigger

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
)

// Send signs a body as the source's sender would, with the first secret, and delivers it to a URL, so that an operator
// can try a source. event is GitHub's event name; if empty, Send chooses one that starts a run and fits the body's
// action.
func (w *Webhook) Send(ctx context.Context, client *http.Client, url, event string, body []byte,
	now time.Time) (Accepted, error) {
	payload, err := object(body)
	if err != nil {
		return Accepted{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Accepted{}, err
	}
	switch {
	case w.eventHeader == "" && event != "":
		return Accepted{}, fmt.Errorf("the source %s takes the event's name from the body", w.name)
	case w.eventHeader != "" && event == "":
		if event = w.suiting(text(payload, "action")); event == "" {
			return Accepted{},
				fmt.Errorf("the body matches none of the events that start a run (%s): name one", strings.Join(w.events, ", "))
		}
	}
	if w.eventHeader != "" {
		req.Header.Set(w.eventHeader, event)
	}
	d := delivery{id: evidence.NewID()}
	if w.scheme.timestampHeader != "" {
		d.timestamp = strconv.FormatInt(now.Unix(), 10)
		req.Header.Set(w.scheme.timestampHeader, d.timestamp)
	}
	mac := hmac.New(sha256.New, w.secrets[0])
	mac.Write(w.scheme.signed(d, body))
	req.Header.Set(w.scheme.idHeader, d.id)
	req.Header.Set(w.scheme.signatureHeader, w.scheme.signature(mac.Sum(nil)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return Accepted{}, fmt.Errorf("no answer from the trigger service (is it running?): %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return Accepted{}, problem.Read(resp)
	}
	var answer Accepted
	return answer, json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxAnswer)).Decode(&answer)
}

const maxAnswer = 64 << 10

// suiting returns an event with this action that starts a run, or else the first for any action.
func (w *Webhook) suiting(action string) string {
	anyAction := ""
	for _, e := range w.events {
		switch name, of, only := strings.Cut(e, "."); {
		case only && of == action:
			return name
		case !only && anyAction == "":
			anyAction = name
		}
	}
	return anyAction
}

// TestBody returns a body that starts a run, new each time, and the event's name if the sender gives it beside the
// body.
func (w *Webhook) TestBody() (event string, body []byte) {
	payload := map[string]string{"test": evidence.NewID()}
	if w.eventHeader == "" {
		payload["type"] = "test"
	} else {
		var action string
		var only bool
		if event, action, only = strings.Cut(w.events[0], "."); only {
			payload["action"] = action
		}
	}
	body, _ = json.Marshal(payload) // texts always marshal
	return event, body
}

// Test puts a message into the queue, new each time, as a producer would. If root does, the message belongs to the
// directory's owner, whose messages are accepted.
func (q *Queue) Test() error {
	name := "test-" + evidence.NewID()
	body, _ := json.Marshal(map[string]string{"test": name}) // texts always marshal
	from := filepath.Join(q.dir, name)
	info, err := os.Stat(q.dir)
	if err != nil {
		return fmt.Errorf("trigger: queue %s: the service makes its folders when it starts: %w", q.name, err)
	}
	if err := os.WriteFile(from, body, 0o600); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		err = os.Lchown(from, int(ownerOf(info).Uid), int(ownerOf(info).Gid))
	}
	if err != nil {
		return errors.Join(err, os.Remove(from))
	}
	if err := os.Rename(from, filepath.Join(q.dir, folderNew, name)); err != nil {
		return errors.Join(err, os.Remove(from))
	}
	return nil
}
