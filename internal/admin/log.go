package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/translog"
)

// TransparencyLog is the state of a sidecar's transparency log.
type TransparencyLog struct {
	Origin    string                 `json:"origin"`
	Key       string                 `json:"key"`       // that signs, as a policy names it
	Entries   int64                  `json:"entries"`   // with a number
	Witnessed int64                  `json:"witnessed"` // those in the last checkpoint that the policy accepts
	Since     time.Time              `json:"since"`     // of that checkpoint; before it, the start of the process
	Demanded  bool                   `json:"demanded"`  // the policy demands witnesses
	Witnesses []translog.Cosignature `json:"witnesses"` // of that checkpoint
	// why witnesses have not cosigned the newest one, by their names
	Failures map[string]string `json:"failures"`
}

// String describes the log in one line.
func (l TransparencyLog) String() string {
	if !l.Demanded {
		return fmt.Sprintf("log %s: %d entries, the operator's word", l.Origin, l.Entries)
	}
	if l.Witnessed == 0 {
		return fmt.Sprintf("log %s: %d entries, not witnessed yet", l.Origin, l.Entries)
	}
	var by []string
	until := l.Since
	for _, w := range l.Witnesses {
		by = append(by, w.Witness)
		if w.Time.Before(until) {
			until = w.Time
		}
	}
	slices.Sort(by)
	return fmt.Sprintf("log %s: %d entries, %d of them witnessed by %s until %s", l.Origin, l.Entries, l.Witnessed,
		strings.Join(by, ", "), until.UTC().Format(time.RFC3339))
}

func (s *Server) log(r *http.Request) (*TransparencyLog, error) {
	if s.Transparency == nil {
		return nil, nil
	}
	return s.Transparency(r.Context())
}
