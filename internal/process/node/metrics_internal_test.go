package node

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
)

func TestEndpoints(t *testing.T) {
	var described struct {
		Paths map[string]any `json:"paths"`
	}
	check.Must(t, json.Unmarshal(api.Description(), &described))
	want := []string{mcp}
	for path := range described.Paths {
		if rest, below := strings.CutPrefix(path, "/v1/"); below {
			endpoint, _, _ := strings.Cut(rest, "/")
			want = append(want, endpoint)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if got := slices.Sorted(slices.Values(endpoints)); !slices.Equal(got, want) {
		t.Errorf("the metrics know %q, and the API has %q", got, want)
	}
}
