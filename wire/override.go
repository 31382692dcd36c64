package wire

import (
	"net/http"
	"strings"
)

// MethodOverride returns the name of a header of h with which a server may be told to act on another method than the one that a
// request shows, and that everything is bound to; empty where there is none. Some servers read _ as -.
func MethodOverride(h http.Header) string {
	for name := range h {
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case "x-http-method", "x-http-method-override", "x-method-override":
			return name
		}
	}
	return ""
}
