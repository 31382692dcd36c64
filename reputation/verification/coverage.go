package verification

import (
	"slices"
	"strings"
	"unicode"
)

// Bands of reasoning coverage.
const (
	BandLow      = "low"      // a violation, unless a server evaluates the reasoning
	BandMarginal = "marginal" // neither a bonus nor a violation
	BandFull     = "full"
)

// Thresholds of reasoning coverage, in thousandths.
const (
	leastCoverage           = 250
	leastCoveragePrivileged = 125
	fullCoverage            = 400
	termPrefix              = 5 // letters compared, since plurals and tenses differ at the end
)

// stopWords are longer than four letters but carry no meaning.
var stopWords = strings.Fields(`
	about above after again against almost along already although always among another around because before being
	below between cannot could during either every everything first further having however itself least maybe might
	nobody other others ought rather really second shall should since something still their theirs themselves there
	these thing things third those though through together toward under unless until using where whether which while
	whose within without would yours`)

// Coverage returns the share of the prompt's terms that the reasoning names, in thousandths (original:
// computeReasoningCoverage). Terms are words of more than four letters, compared by the first five. Echoing the prompt
// covers everything, so this is only a fallback without an evaluating server.
func Coverage(prompt string, reasoning ...string) int64 {
	wanted := terms(prompt)
	if len(wanted) == 0 {
		return 0
	}
	said := make(map[string]bool)
	for _, text := range reasoning {
		for _, word := range words(text) {
			said[prefix(word)] = true
		}
	}
	named := 0
	for _, term := range wanted {
		if said[term] {
			named++
		}
	}
	return int64(named * 1000 / len(wanted))
}

func band(coverage int64, privileged bool) string {
	least := int64(leastCoverage)
	if privileged {
		least = leastCoveragePrivileged
	}
	switch {
	case coverage < least:
		return BandLow
	case coverage < fullCoverage:
		return BandMarginal
	}
	return BandFull
}

func terms(prompt string) []string {
	var all []string
	for _, word := range words(prompt) {
		if len([]rune(word)) > 4 && !slices.Contains(stopWords, word) && !slices.Contains(all, prefix(word)) {
			all = append(all, prefix(word))
		}
	}
	return all
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

func prefix(word string) string {
	runes := []rune(word)
	return string(runes[:min(termPrefix, len(runes))])
}
