package autonomy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/actionproof/mediator/evidence"
)

// Distribution is a median and a spread around it.
type Distribution struct {
	Median float64 `json:"median"`
	Spread float64 `json:"spread"`
}

// Sample is one session's contribution to its owner's baseline.
type Sample struct {
	Models []ModelSample `json:"models"`
}

// ModelSample is a session's sample of one model.
type ModelSample struct {
	Host  string       `json:"host"`
	Model string       `json:"model"`
	Speed *SpeedSample `json:"speed,omitempty"`
	Texts []TextSample `json:"texts,omitempty"`
}

// SpeedSample is a model's speed in tokens per second.
type SpeedSample struct {
	Median float64 `json:"median"`
	MAD    float64 `json:"mad"`
}

// TextSample describes a model's text of one size class.
type TextSample struct {
	Class       int64   `json:"class"`
	Entropy     float64 `json:"entropy"`
	Compression float64 `json:"compression"`
}

// Baseline is an immutable snapshot of the usual figures of an owner's models. A score names it by hash.
type Baseline struct {
	Owner    string          `json:"owner"`
	Version  string          `json:"version"` // of the formulas
	Sessions int64           `json:"sessions"`
	Models   []ModelBaseline `json:"models"`
}

// ModelBaseline is the baseline of one model.
type ModelBaseline struct {
	Host  string         `json:"host"`
	Model string         `json:"model"`
	Speed *SpeedBaseline `json:"speed,omitempty"`
	Texts []TextBaseline `json:"texts,omitempty"`
}

// SpeedBaseline is a model's usual speed in tokens per second, from N sessions.
type SpeedBaseline struct {
	N int64 `json:"n"`
	Distribution
}

// TextBaseline describes a model's usual text of one size class, from N sessions.
type TextBaseline struct {
	Class       int64        `json:"class"`
	N           int64        `json:"n"`
	Entropy     Distribution `json:"entropy"`
	Compression Distribution `json:"compression"`
}

// Sample returns the session's sample so far. A baseline takes one sample of each closed session.
func (s *Session) Sample() Sample {
	out := Sample{Models: make([]ModelSample, len(s.models))}
	for at, m := range s.models {
		out.Models[at] = s.sampleOf(at, m)
	}
	slices.SortFunc(out.Models, func(a, b ModelSample) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Model, b.Model))
	})
	return out
}

func (s *Session) sampleOf(at int, m model) ModelSample {
	out := ModelSample{Host: m.host, Model: m.name}
	texts := make(map[int64]TextSample)
	var speeds []float64
	for i := range s.calls {
		c := &s.calls[i]
		if c.model != at {
			continue
		}
		if speed, ok := c.tokenSpeed(formula.Timing["speed"].MinTokens); ok {
			speeds = append(speeds, speed)
		}
		if c.sample.bytes > 0 {
			k := c.sample.class()
			texts[k] = TextSample{k, c.sample.entropy, c.sample.compression}
		}
	}
	if len(speeds) >= formula.Baseline.MinCalls {
		middle, mad := medianMAD(speeds)
		out.Speed = &SpeedSample{middle, mad}
	}
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		out.Texts = append(out.Texts, texts[k])
	}
	return out
}

// NewBaseline makes a snapshot from one sample per session, in any order.
func NewBaseline(owner string, samples []Sample) Baseline {
	of := make(map[model][]ModelSample)
	for _, s := range samples {
		for _, m := range s.Models {
			key := model{m.Host, m.Model}
			of[key] = append(of[key], m)
		}
	}
	keys := slices.SortedFunc(maps.Keys(of), compareModels)
	slices.SortStableFunc(keys, func(a, b model) int { return len(of[b]) - len(of[a]) })
	keys = keys[:min(len(keys), formula.Baseline.Models)]
	slices.SortFunc(keys, compareModels)
	out := Baseline{Owner: owner, Version: formula.Version, Sessions: int64(len(samples)),
		Models: make([]ModelBaseline, len(keys))}
	for i, key := range keys {
		out.Models[i] = baselineOf(key, of[key])
	}
	return out
}

func compareModels(a, b model) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.name, b.name))
}

func baselineOf(m model, samples []ModelSample) ModelBaseline {
	out := ModelBaseline{Host: m.host, Model: m.name}
	var medians, within []float64
	texts := make(map[int64][]TextSample)
	for _, s := range samples {
		if s.Speed != nil {
			medians, within = append(medians, s.Speed.Median), append(within, s.Speed.MAD)
		}
		for _, t := range s.Texts {
			texts[t.Class] = append(texts[t.Class], t)
		}
	}
	if n := len(medians); n > 0 {
		middle, between := medianMAD(medians)
		out.Speed = &SpeedBaseline{int64(n), Distribution{middle, between + median(within)}}
	}
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		var entropy, compression []float64
		for _, t := range texts[k] {
			entropy, compression = append(entropy, t.Entropy), append(compression, t.Compression)
		}
		out.Texts = append(out.Texts,
			TextBaseline{k, int64(len(entropy)), distributionOf(entropy), distributionOf(compression)})
	}
	return out
}

func distributionOf(values []float64) Distribution {
	middle, mad := medianMAD(values)
	return Distribution{middle, mad}
}

// Hash returns the SHA-256 of the snapshot's canonical JSON.
func (b Baseline) Hash() (string, error) { return evidence.HashValue(b) }

// lookup holds the baselines of a session's models by index; nil for none.
type lookup []*ModelBaseline

func (b *Baseline) of(models []model) lookup {
	out := make(lookup, len(models))
	if b == nil {
		return out
	}
	for i, m := range models {
		at := slices.IndexFunc(b.Models, func(of ModelBaseline) bool { return of.Host == m.host && of.Model == m.name })
		if at >= 0 {
			out[i] = &b.Models[at]
		}
	}
	return out
}

// text returns the baseline for a sample, or nil if there is no sample or too few sessions.
func (l lookup) text(model int, s sample) *TextBaseline {
	b := l[model]
	if b == nil || s.bytes == 0 {
		return nil
	}
	at := slices.IndexFunc(b.Texts, func(t TextBaseline) bool { return t.Class == s.class() })
	if at < 0 || b.Texts[at].N < formula.Baseline.MinSessions {
		return nil
	}
	return &b.Texts[at]
}
