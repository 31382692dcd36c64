package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/proxy/upstream"
)

func TestMissingOption(t *testing.T) {
	for name, drop := range map[string]func(*PipelineOptions){
		"Rules":           func(o *PipelineOptions) { o.Rules = nil },
		"Triggers":        func(o *PipelineOptions) { o.Triggers = nil },
		"Deployment":      func(o *PipelineOptions) { o.Deployment = nil },
		"EnvironmentHash": func(o *PipelineOptions) { o.EnvironmentHash = "none" },
		"Record":          func(o *PipelineOptions) { o.Record = nil },
		"Transport":       func(o *PipelineOptions) { o.Transport = nil },
		"Now":             func(o *PipelineOptions) { o.Now = nil },
		"":                func(*PipelineOptions) {},
	} {
		record := &memoryRecord{t: t, posts: make(map[string]ledger.Record)}
		_, o := newRoles(t, session.NewSet(time.Now), record)
		o.Rules, o.Transport = new(rules.Rules), new(upstream.Transport)
		drop(&o)
		_, err := NewPipeline(o)
		if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), "."+name+" ") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
