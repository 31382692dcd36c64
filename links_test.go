package mediator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

var (
	pageLink   = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	pageAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
	notInLinks = regexp.MustCompile(`[^\w\- ]`)
)

// TestLinks follows the links of every page to files and headings.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		check.Must(t, err)
		pages = append(pages, found...)
	}
	if len(pages) < 20 {
		t.Fatalf("there are only %d pages", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check.Must(t, err)
		for _, link := range pageLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], ":") {
				continue // not ours
			}
			to := page
			if link[1] != "" {
				to = filepath.Join(filepath.Dir(page), link[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: a link to %s leads nowhere", page, link[1])
			} else if link[2] != "" && !slices.Contains(anchors(t, to), link[2]) {
				t.Errorf("%s: %s has no heading #%s", page, to, link[2])
			}
		}
	}
}

// anchors returns the headings of a page as links name them, and its elements <a id="...">.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	check.Must(t, err)
	for _, m := range pageAnchor.FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			plain := notInLinks.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all = append(all, strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return all
}
