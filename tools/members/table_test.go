package main

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/inference/members"
)

// TestWrite checks that a table writes as it was read.
func TestWrite(t *testing.T) {
	text := "\n[a request]\ncontent: x y\nstate: z\n"
	table, err := members.Parse(strings.NewReader(text))
	var out strings.Builder
	if err != nil || write(&out, table, []members.Place{"a request"}) != nil || out.String() != text {
		t.Errorf("%q, %v", out.String(), err)
	}
}
