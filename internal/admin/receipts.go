package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/actionproof/mediator/ledger"
)

type sessionReceipts struct {
	Receipts []string `json:"receipts"`
}

func (s *Server) receipts(r *http.Request) (out sessionReceipts, err error) {
	from, limit := 1, ledger.MaxChain
	if err := parseQuery(r.URL.Query(), map[string]any{"from": &from, "limit": &limit}); err != nil {
		return out, err
	}
	found, err := s.Ledger.Chain(r.Context(), r.PathValue("id"), int64(from), min(limit, ledger.MaxChain))
	room := maxShownReceipts
	out.Receipts = []string{}
	for _, receipt := range found {
		if room -= len(receipt.Token); room < 0 {
			break
		}
		out.Receipts = append(out.Receipts, receipt.Token)
	}
	return out, err
}

func (s *Server) delivery(r *http.Request) (any, error) {
	sender := s.sender.Load()
	if sender == nil {
		return nil, nil
	}
	return sender.Status(r.Context())
}

// Receipts asks a sidecar for at most limit interaction receipts of a session, from a number on.
func Receipts(ctx context.Context, endpoint, session string, from int64, limit int) ([]string, error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}, "limit": {strconv.Itoa(limit)}}
	var found sessionReceipts
	err := Get(ctx, endpoint, "/v1/sessions/"+url.PathEscape(session)+"/receipts?"+query.Encode(), &found)
	return found.Receipts, err
}
