package auditexport

import (
	"encoding/json"

	"github.com/actionproof/mediator/ledger"
)

// A Format makes one line of a record, without its end.
type Format func(r ledger.Record) ([]byte, error)

// Formats are all formats by their names in the configuration.
var Formats = map[string]Format{
	"json": func(r ledger.Record) ([]byte, error) { return json.Marshal(r) },
	"ocsf": func(r ledger.Record) ([]byte, error) { return json.Marshal(ocsfEvent(r)) },
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
