package main

import (
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/autonomy"
)

// scorer is the score that is judged, and its name. Until one is connected, each session has the same score, so that every area is 0.5.
var scorer Scorer = func([]interaction.Receipt, []autonomy.Challenge, []string) (score, lower float64, parts map[string]float64) {
	return 50, 50, map[string]float64{"constant": 50}
}

const scorerName = "a constant: no score is connected yet"
