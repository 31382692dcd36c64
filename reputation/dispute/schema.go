package dispute

import "embed"

//go:embed schemas/*.json
var schemas embed.FS

// The documents of which there is a schema.
const (
	SchemaSignal    = "signal"
	SchemaContract  = "contract"
	SchemaChallenge = "challenge"
)

// Schema returns the JSON Schema (2020-12) of a document: one of the names above. What the schema takes, the parsers take, but for what no schema
// can say: that an agent's key is on the curve, that a text is the canonical form of its value, and that a whole document is no larger than [MaxSize].
func Schema(name string) ([]byte, bool) {
	raw, err := schemas.ReadFile("schemas/" + name + ".json")
	return raw, err == nil
}
