package rules

import (
	"mime"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
)

// mediaType is the form of a media type that is recorded: a made-up one could be a secret.
var mediaType = pattern.New(`^(application|audio|font|image|model|multipart|text|video)/[a-z0-9.+-]{1,80}$`)

// Carries returns what a rule must allow beside method and URL: see [ledger.Record.Carries].
func Carries(h http.Header) string {
	if wire.NamesWebSocket(h) {
		return ledger.WebSocket
	}
	kind := h.Get("Content-Type")
	if kind == "" || kind == "application/json" {
		return ""
	}
	kind, _, _ = mime.ParseMediaType(kind)
	switch {
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		return ""
	case !mediaType.MatchString(kind):
		return "other"
	}
	return strings.Clone(kind) // kept longer than the header
}
