package wire_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/wire"
)

type ask struct {
	N int `json:"n"`
}

func double(_ context.Context, a ask) (ask, error) {
	switch a.N {
	case 1:
		return ask{}, evidence.Refuse("policy_denied", "one is denied")
	case 2:
		return ask{}, errors.New("a secret detail")
	}
	return ask{2 * a.N}, nil
}

func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}

func TestCall(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/double", wire.Handle(double))
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) })
	s := httptest.NewServer(mux)
	defer s.Close()
	p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
	for _, tt := range []struct {
		path string
		n    int
		code string
	}{
		{"/double", 4, ""}, {"/double", 1, "policy_denied"}, {"/double", 2, "internal"},
		{"/html", 0, "gate_unavailable"}, {"/broken", 0, "gate_unavailable"}, {"/absent", 0, "gate_unavailable"},
	} {
		var answer ask
		err := p.Call(t.Context(), s.URL+tt.path, ask{tt.n}, &answer)
		if codeOf(err) != tt.code || tt.code == "" && (err != nil || answer.N != 8) {
			t.Errorf("%s %d: got %v, %v", tt.path, tt.n, answer, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret detail") {
			t.Error("the error tells what nobody classified")
		}
	}
	s.Close()
	if err := p.Call(t.Context(), s.URL+"/double", ask{}, &ask{}); codeOf(err) != "gate_unavailable" {
		t.Errorf("got %v", err)
	}
}

func TestReadIsStrictAndBounded(t *testing.T) {
	s := httptest.NewServer(wire.Handle(double))
	defer s.Close()
	for name, body := range map[string]string{
		"an unknown member": `{"n":4,"m":1}`, "a duplicate": `{"n":4,"n":4}`, "another case": `{"N":4}`, "text after it": `{"n":4} x`, "nothing": ``,
		"too large": `{"n":4` + strings.Repeat(" ", wire.MaxRequest) + `}`, "too deep": strings.Repeat("[", 200),
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(s.URL, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("got %d", resp.StatusCode)
			}
		})
	}
}
