package autonomy

import (
	_ "embed"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
)

//go:embed formulas.json
var formulasJSON []byte

// constants are the contents of formulas.json. docs/autonomy.md explains each.
type constants struct {
	Version  string             `json:"version"`
	Weights  map[string]float64 `json:"weights"` // of the signals
	Caps     map[string]float64 `json:"caps"`
	Bands    []band             `json:"bands"`
	Interval struct {
		Level  float64 `json:"level"`
		Blocks int     `json:"blocks"`
		T      float64 `json:"t"`
	} `json:"interval"`

	// The signals have their parts by name. "text" is what two parts of the entropy share.
	Timing    map[string]*partOf `json:"timing"`
	Recursion map[string]*partOf `json:"recursion"`
	Knowledge map[string]*partOf `json:"knowledge"`
	Entropy   map[string]*partOf `json:"entropy"`
	Challenge map[string]*partOf `json:"challenge"`

	Baseline struct {
		MinSessions int64 `json:"minSessions"`
		MinCalls    int   `json:"minCalls"`
		Models      int   `json:"models"`
	} `json:"baseline"`
	Session struct {
		Models int `json:"models"`
	} `json:"session"`
}

type band struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
}

// partOf has the constants of a part: its most points, the inputs that it needs, and others. No part has all.
type partOf struct {
	Points float64 `json:"points,omitempty"`

	MinCalls  int64 `json:"minCalls,omitempty"`
	MinGaps   int64 `json:"minGaps,omitempty"`
	MinPairs  int64 `json:"minPairs,omitempty"`
	MinBlocks int64 `json:"minBlocks,omitempty"`

	Full           float64 `json:"full,omitempty"`
	None           float64 `json:"none,omitempty"`
	MinTokens      float64 `json:"minTokens,omitempty"`
	Width          float64 `json:"width,omitempty"`
	Floor          float64 `json:"floor,omitempty"`
	Most           int     `json:"most,omitempty"`
	Words          float64 `json:"words,omitempty"`
	WordsPerMinute float64 `json:"wordsPerMinute,omitempty"`
	MaxZ           float64 `json:"maxZ,omitempty"`
	Calls          float64 `json:"calls,omitempty"`
	Duration       float64 `json:"durationMs,omitempty"`
	GrowthNone     float64 `json:"growthNone,omitempty"`
	GrowthFull     float64 `json:"growthFull,omitempty"`
	RhythmMinSpan  float64 `json:"rhythmMinSpanMs,omitempty"`
	RhythmMinCalls int64   `json:"rhythmMinCalls,omitempty"`
	QuietNone      float64 `json:"quietNone,omitempty"`
	QuietFull      float64 `json:"quietFull,omitempty"`
	Scale          float64 `json:"scale,omitempty"`
	ClassBytes     float64 `json:"classBytes,omitempty"`
	Z              float64 `json:"z,omitempty"`
	Predicates     float64 `json:"predicates,omitempty"`
}

func (o *partOf) least() int64 { return max(1, o.MinCalls, o.MinGaps, o.MinPairs, o.MinBlocks) }

var formula = func() (c constants) {
	if err := strictjson.Parse(formulasJSON, &c); err != nil {
		panic("autonomy: formulas.json: " + err.Error())
	}
	return c
}()

// ScoringHash is the SHA-256 of the formulas' canonical JSON. Scores by different formulas are not comparable.
var ScoringHash = evidence.HashBytes(canonicalFormulas)

var canonicalFormulas = func() []byte {
	text, err := strictjson.Canonical(formulasJSON)
	if err != nil {
		panic("autonomy: formulas.json: " + err.Error())
	}
	return text
}()

// Version returns the version of the formulas.
func Version() string { return formula.Version }

// Formulas returns the canonical JSON behind [ScoringHash].
func Formulas() []byte { return slices.Clone(canonicalFormulas) }
