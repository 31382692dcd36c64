package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

type sessionReceipts struct {
	Receipts []string `json:"receipts"`
}

func (s *Server) receipts(r *http.Request) (out sessionReceipts, err error) {
	from, limit, err := parsePage(r.URL.Query())
	if err != nil {
		return out, err
	}
	found, err := s.Ledger.Chain(r.Context(), r.PathValue("id"), from, int(min(limit, ledger.MaxChain)))
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

func parsePage(v url.Values) (from, limit int64, err error) {
	from, limit = 1, ledger.MaxChain
	for name := range v {
		to := &from
		switch name {
		case "from":
		case "limit":
			to = &limit
		default:
			return 0, 0, refusal.New("query_malformed", "%.40q is not a parameter of a query for receipts", name)
		}
		if *to, err = strconv.ParseInt(v.Get(name), 10, 64); err != nil || *to < 1 {
			return 0, 0, refusal.New("query_malformed", "%s=%.40q must be a number above 0", name, v.Get(name))
		}
	}
	return from, limit, nil
}

// Receipts asks a sidecar for at most limit interaction receipts of a session, from a number on.
func Receipts(ctx context.Context, endpoint, session string, from int64, limit int) ([]string, error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}, "limit": {strconv.Itoa(limit)}}
	var found sessionReceipts
	err := Get(ctx, endpoint, "/v1/sessions/"+url.PathEscape(session)+"/receipts?"+query.Encode(), &found)
	return found.Receipts, err
}
