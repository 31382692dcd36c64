package dispute

import "embed"

//go:embed schemas/*.json
var schemas embed.FS

// Schema returns the JSON Schema (2020-12) of a signal, contract or challenge. The parsers also check what no schema
// can: that an agent's key is a curve point, that a text is canonical, and [MaxSize].
func Schema(name string) ([]byte, bool) {
	raw, err := schemas.ReadFile("schemas/" + name + ".json")
	return raw, err == nil
}
