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
	Version   string      `json:"version"`
	Weights   perSignal   `json:"weights"`
	Caps      perSignal   `json:"caps"`
	Bands     []band      `json:"bands"`
	Interval  intervalOf  `json:"interval"`
	Timing    timingOf    `json:"timing"`
	Recursion recursionOf `json:"recursion"`
	Knowledge knowledgeOf `json:"knowledge"`
	Entropy   entropyOf   `json:"entropy"`
	Challenge challengeOf `json:"challenge"`
	Baseline  struct {
		MinSessions int64 `json:"minSessions"`
		MinCalls    int   `json:"minCalls"`
		Models      int   `json:"models"`
	} `json:"baseline"`
	Session struct {
		Models int `json:"models"`
	} `json:"session"`
}

type (
	perSignal struct {
		Timing    float64 `json:"timing"`
		Recursion float64 `json:"recursion"`
		Knowledge float64 `json:"knowledge"`
		Entropy   float64 `json:"entropy"`
		Challenge float64 `json:"challenge"`
	}
	band struct {
		Name string  `json:"name"`
		From float64 `json:"from"`
	}
	intervalOf struct {
		Level  float64 `json:"level"`
		Blocks int     `json:"blocks"`
		T      float64 `json:"t"`
	}
	timingOf struct {
		Regression struct {
			Points   float64 `json:"points"`
			MinCalls int64   `json:"minCalls"`
		} `json:"regression"`
		Speed struct {
			Points    float64 `json:"points"`
			MinCalls  int64   `json:"minCalls"`
			MinTokens float64 `json:"minTokens"`
			Width     float64 `json:"width"`
			Floor     float64 `json:"floor"`
		} `json:"speed"`
		Regularity struct {
			Points  float64 `json:"points"`
			MinGaps int64   `json:"minGaps"`
			Full    float64 `json:"full"`
			None    float64 `json:"none"`
		} `json:"regularity"`
	}
	// counted is a part whose points grow with a number up to Full.
	counted struct {
		Points   float64 `json:"points"`
		MinCalls int64   `json:"minCalls"`
		Full     float64 `json:"full"`
	}
	recursionOf struct {
		Chain          counted `json:"chain"`
		SelfReferences struct {
			Points   float64 `json:"points"`
			MinCalls int64   `json:"minCalls"`
		} `json:"self_references"`
		Depth counted `json:"depth"`
	}
	knowledgeOf struct {
		Domains struct {
			counted
			Most int `json:"most"`
		} `json:"domains"`
		Agreement struct {
			Points   float64 `json:"points"`
			MinPairs int64   `json:"minPairs"`
		} `json:"agreement"`
		Superhuman struct {
			Points         float64 `json:"points"`
			MinBlocks      int64   `json:"minBlocks"`
			Full           float64 `json:"full"`
			Words          float64 `json:"words"`
			WordsPerMinute float64 `json:"wordsPerMinute"`
		} `json:"superhuman"`
	}
	likeBaseline struct {
		Points float64 `json:"points"`
		MaxZ   float64 `json:"maxZ"`
	}
	entropyOf struct {
		WordEntropy likeBaseline `json:"word_entropy"`
		Compression likeBaseline `json:"compression"`
		Text        struct {
			Scale      float64 `json:"scale"`
			Floor      float64 `json:"floor"`
			ClassBytes float64 `json:"classBytes"`
		} `json:"text"`
		Endurance struct {
			Points   float64 `json:"points"`
			MinCalls int64   `json:"minCalls"`
			Calls    float64 `json:"calls"`
			Duration float64 `json:"durationMs"`
		} `json:"endurance"`
		Fatigue struct {
			Points         float64 `json:"points"`
			MinGaps        int64   `json:"minGaps"`
			Duration       float64 `json:"durationMs"`
			GrowthNone     float64 `json:"growthNone"`
			GrowthFull     float64 `json:"growthFull"`
			RhythmMinSpan  float64 `json:"rhythmMinSpanMs"`
			RhythmMinCalls int64   `json:"rhythmMinCalls"`
			QuietNone      float64 `json:"quietNone"`
			QuietFull      float64 `json:"quietFull"`
		} `json:"fatigue"`
	}
	challengeOf struct {
		Commitments struct {
			Points     float64 `json:"points"`
			Z          float64 `json:"z"`
			Predicates float64 `json:"predicates"`
		} `json:"commitments"`
	}
)

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
