package auditexport

import (
	"encoding/json"

	"github.com/actionproof/mediator/ledger"
)

// A Format appends one line of a record, without its end.
type Format func(to []byte, e ledger.Export) ([]byte, error)

// Formats are all formats by their names in the configuration.
var Formats = map[string]Format{
	"json": func(to []byte, e ledger.Export) ([]byte, error) { return e.AppendJSON(to), nil },
	"ocsf": ocsfLine,
}

// idOf returns the record's id in a line of any format, or "".
func idOf(line []byte) string {
	var of struct {
		ID       string `json:"id"`
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if json.Unmarshal(line, &of) != nil {
		return ""
	}
	return of.ID + of.Metadata.UID
}
