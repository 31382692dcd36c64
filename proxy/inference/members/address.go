package members

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// members that tell the provider what to fetch
	addresses = []string{"url", "image_url", "file_url", "video_url", "audio_url", "document_url",
		"file_uri", "fileUri"}
	// members that the model sees as they are, even if they are addresses
	texts = []string{"text", "title", "context", "filename", "name"}
	// a text that is nothing but an address
	address = regexp.MustCompile(`(?i)^(?:[a-z][a-z0-9+.-]*://|https?:|file:|ftp:)\S*$`)
)

// IsAddress reports whether the provider may fetch what a member's text names.
func IsAddress(member, text string) bool {
	text = strings.TrimSpace(text)
	is := func(name string) bool { return strings.EqualFold(name, member) }
	switch {
	case len(text) >= 5 && strings.EqualFold(text[:5], "data:"):
		return false
	case slices.ContainsFunc(addresses, is):
		return true
	}
	return !slices.ContainsFunc(texts, is) && address.MatchString(text)
}

// IsSource reports whether a member has the sources of an earlier answer, which the provider does not fetch.
func IsSource(member string) bool {
	return slices.Contains([]string{"annotations", "citations", "reasoning_details"}, member)
}

// IsFileID reports whether a member points to files that the provider keeps.
func IsFileID(member string) bool {
	folded := folded(member)
	return folded == "fileid" || folded == "fileids"
}
