package node

import (
	"net/http"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/pattern"
)

// readable lists the path segments that may follow a prefix, spelled so that the node cannot read another path.
var readable = []struct {
	prefix  string
	segment func(string) bool
}{
	{scorePath, evidence.IsHash}, {reputationPath, isAgent},
	{signalsPath + "/", pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`).MatchString},
	{disputesPath, pattern.New(`^dsp_[0-9a-f]{32}$`).MatchString},
	{schemasPath, pattern.New(`^[a-z]{1,16}$`).MatchString},
}

// colons unescapes colons: agents' ids have them, and JavaScript's encodeURIComponent escapes them.
var colons = strings.NewReplacer("%3A", ":", "%3a", ":")

// Target returns the node's path for a request that every agent may make. Of an escaped path only colons may be.
func Target(method, path, query string) (target string, ok bool) {
	switch {
	case method == http.MethodPost:
		return path, query == "" && (path == issuePath || path == commitPath)
	case method != http.MethodGet || query != "":
		return "", false
	}
	path = colons.Replace(path)
	for _, r := range readable {
		if segment, ok := strings.CutPrefix(path, r.prefix); ok {
			return path, r.segment(segment)
		}
	}
	return "", false
}
