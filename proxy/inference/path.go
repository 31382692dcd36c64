package inference

import (
	"net/url"
	"strings"
)

// namesModel are the segments of a path after which a provider has the name of the model or deployment: Azure OpenAI
// (/openai/deployments/NAME/...), its older form (/engines/NAME/...), Amazon Bedrock (/model/ID/invoke), and Databricks
// (/serving-endpoints/NAME/invocations).
var namesModel = map[string]bool{"deployments": true, "engines": true, "model": true, "serving-endpoints": true}

// ModelInPath returns the model that the path of a request names, and whether it names one. Such a provider answers
// with that model, whatever the body says. Google has models/NAME:METHOD. A name that does not look like one is empty,
// and so is one whose place depends on how the provider takes an encoded slash. Some providers take either case, and
// leave out what stands behind a semicolon.
func ModelInPath(escaped string) (model string, ok bool) {
	before := ""
	segments := strings.Split(escaped, "/")
	for i, name := range segments[1:] {
		name, err := url.PathUnescape(name)
		if err != nil {
			continue
		}
		whole := name
		if before == "models" {
			var method string
			if at := strings.LastIndexByte(name, ':'); at > 0 {
				name, method = name[:at], name[at+1:]
			}
			ok = method != ""
		} else {
			ok = namesModel[before] && i+2 < len(segments)
		}
		if ok {
			if before != "model" && strings.Contains(name, "/") { // an id of Amazon can have slashes
				return "", true
			}
			return nameOf(name), true
		}
		parts := strings.Split(strings.ToLower(whole), "/")
		for n, part := range parts {
			part, _, _ = strings.Cut(part, ";")
			if parts[n] = part; len(parts) > 1 && (namesModel[part] || part == "models") {
				return "", true
			}
		}
		before = parts[0]
	}
	return "", false
}
