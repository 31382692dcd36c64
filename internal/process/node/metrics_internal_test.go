package node

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/reputation/api"
)

// TestEndpoints: each path of the API that its description names below /v1/ has a label of its own in the metrics.
func TestEndpoints(t *testing.T) {
	var described struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(api.Description(), &described); err != nil {
		t.Fatal(err)
	}
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
