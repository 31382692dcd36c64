package problem_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
)

func FuzzRead(f *testing.F) {
	f.Add(403, []byte(`{"code":"replayed","detail":"it was used before","status":409}`))
	f.Add(502, []byte(`<html>`))
	f.Add(500, []byte(`{"code":7}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := problem.Read(&http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body))})
		var answered *problem.Error
		if err == nil || errors.As(err, &answered) && answered.Code() == "" {
			t.Errorf("%q is read as %v", body, err)
		}
	})
}
