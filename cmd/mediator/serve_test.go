package main

import (
	"reflect"
	"testing"
)

// TestActionHeaders: an action that names no headers takes all, and one with an empty list none.
func TestActionHeaders(t *testing.T) {
	for name, tt := range map[string]struct{ headers, want []string }{
		"left out": {nil, nil}, "empty": {[]string{}, []string{}}, "in any spelling": {[]string{"x-github-api-version"}, []string{"X-Github-Api-Version"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := &sidecar{}, findings{}
			s.addAction("actions[0]", actionConfig{Name: "a", Subject: "s", Action: "a", Headers: tt.headers, Match: matchConfig{URL: "https://x.example/y", Methods: []string{"POST"}}}, &f)
			if len(f) > 0 || !reflect.DeepEqual(s.actions[0].Headers, tt.want) {
				t.Errorf("got %#v, %v", s.actions[0].Headers, f)
			}
		})
	}
}
