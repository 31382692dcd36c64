package wire

import (
	"net/http"
	"strings"
)

// MethodOverride returns the name of a header of h with which a server may be told to act on another method than the one that a
// request shows, and that everything is bound to; empty where there is none. Some servers read _ as -.
func MethodOverride(h http.Header) string {
	for name := range h {
		for _, override := range overrides {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), override) {
				return name
			}
		}
	}
	return ""
}

var overrides = []string{"x-http-method", "x-http-method-override", "x-method-override"}
