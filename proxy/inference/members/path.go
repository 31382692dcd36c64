package members

import (
	"net/url"
	"strings"
)

// namesModel are path segments before the name of a model or deployment: of Azure OpenAI (also /engines/NAME/...),
// Amazon Bedrock, and Databricks.
var namesModel = map[string]bool{"deployments": true, "engines": true, "model": true, "serving-endpoints": true}

// namesGoogle are those before NAME:METHOD, as Google's APIs write it.
var namesGoogle = map[string]bool{"models": true, "tunedmodels": true, "dynamic": true, "endpoints": true}

// ModelInPath returns the model that a path names, if it names one: such a provider ignores the model in the body. The
// model is empty if its place depends on how the provider reads an encoded slash.
// Case and everything after a semicolon are ignored, as some providers do.
func ModelInPath(escaped string) (model string, ok bool) {
	before := ""
	segments := strings.Split(escaped, "/")
	for i, name := range segments[1:] {
		name, err := url.PathUnescape(name)
		if err != nil {
			continue
		}
		whole := name
		if namesGoogle[before] {
			var method string
			if at := strings.LastIndexByte(name, ':'); at > 0 {
				name, method = name[:at], name[at+1:]
			}
			ok = method != ""
		} else {
			ok = namesModel[before] && i+2 < len(segments)
		}
		if ok {
			if before != "model" && strings.Contains(name, "/") { // Amazon's ids may contain slashes
				return "", true
			}
			return name, true
		}
		parts := strings.Split(strings.ToLower(whole), "/")
		for n, part := range parts {
			part, _, _ = strings.Cut(part, ";")
			if parts[n] = part; len(parts) > 1 && (namesModel[part] || namesGoogle[part]) {
				return "", true
			}
		}
		before = parts[0]
	}
	return "", false
}

// Streams reports whether a path asks for a stream, as those of Google and Amazon do.
func Streams(escaped string) bool {
	last := escaped[strings.LastIndexByte(escaped, '/')+1:]
	_, method, _ := strings.Cut(last, ":")
	return strings.HasPrefix(method, "stream") || last == "converse-stream" || last == "invoke-with-response-stream"
}
