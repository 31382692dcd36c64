package launch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/terminal"
	"github.com/actionproof/mediator/ledger"
)

const (
	maxRefused = 1000 // records that are counted
	maxTold    = 3
)

// tellRefusals prints the most frequent refusals of a session, with their remedies.
func (o Options) tellRefusals(ctx context.Context, session string) {
	type refused struct{ code, call string }
	counts, reasons := make(map[refused]int), make(map[refused]string)
	all := 0
	of := ledger.Query{Session: session, State: ledger.StateRefused, Limit: maxRefused}
	for r, err := range admin.Records(ctx, o.Admin, of) {
		if err != nil {
			o.warn("the session's refusals could not be read: %v", err)
			return
		}
		if r.Code == problem.CallDenied {
			continue
		}
		call := strings.Join(strings.Fields(strings.Join([]string{r.Method, r.Host + r.Path, r.Message}, " ")), " ")
		key := refused{r.Code, call}
		counts[key]++
		reasons[key] = r.Reason
		all++
	}
	if all == 0 {
		return
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b refused) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.code+a.call, b.code+b.call))
	})
	o.warn("refused calls: %d, most often:", all)
	for _, r := range most[:min(maxTold, len(most))] {
		o.warn("%d × %s", counts[r], terminal.Unbroken(terminal.Plain(r.code+": "+r.call+": "+reasons[r])))
		o.warn("    %s", problem.Remedy(r.code))
	}
}
