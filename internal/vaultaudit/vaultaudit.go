// Package vaultaudit compares Vault's audit log, which has every signature of Vault, with the record, which has every
// artifact that the mediator used. A signature that only the log has was made for somebody else, or for a post that
// broke off. If only the record has a signature, the log is incomplete.
package vaultaudit

import (
	"time"
)

// Entry is a signature in the log, or an artifact in a record.
type Entry struct {
	Difference // if it has no partner
	// Value is the signature as the log has it: hashed by the audit device, or in plaintext. A hidden one has none.
	Value string
}

// Difference is a signature that only the log has, or an artifact that only the record has.
type Difference struct {
	Only     string    `json:"only"`               // OnlyVault or OnlyRecord
	Time     time.Time `json:"time"`               // of Vault's answer; of an artifact's signature, to the second
	Key      string    `json:"key"`                // the kid
	Request  string    `json:"request,omitempty"`  // Vault's id of the request
	Item     int       `json:"item,omitempty"`     // the index of the signature in the request
	By       string    `json:"by,omitempty"`       // the display name of the token
	Remote   string    `json:"remote,omitempty"`   // the address of the client
	Post     string    `json:"post,omitempty"`     // the id of the record
	Artifact string    `json:"artifact,omitempty"` // its name in the record
	// Hidden says why the log does not show the signatures of an answer: [HiddenWrapped] or [HiddenLeftOut]. The
	// mediator never asks for such an answer. Key then has no version.
	Hidden string `json:"hidden,omitempty"`
}

// The values of [Difference.Hidden].
const (
	HiddenWrapped = "wrapped"  // Vault wrapped the answer, and logged only the wrapping token
	HiddenLeftOut = "left out" // the line has neither a signature nor an error
)

// The values of [Difference.Only].
const (
	OnlyVault  = "vault"
	OnlyRecord = "record"
)

// Summary counts the comparison. Signatures is Matched plus OnlyVault, and Artifacts is Matched plus OnlyRecord: a pair
// counts if either part lies in the range.
type Summary struct {
	Since      time.Time `json:"since,omitzero"`
	Until      time.Time `json:"until"`
	Signatures int       `json:"signatures"` // in the log, of the compared keys; a hidden answer counts as one
	Artifacts  int       `json:"artifacts"`  // in the record, of these keys
	Matched    int       `json:"matched"`
	Repeated   int       `json:"repeated"`  // signatures of the same text again, as after a broken connection
	OtherKeys  int       `json:"otherKeys"` // signatures of other keys of the same mount, such as the roots'
	OnlyVault  int       `json:"onlyVault"`
	OnlyRecord int       `json:"onlyRecord"`
}

// Differ reports whether there were differences.
func (s Summary) Differ() bool { return s.OnlyVault+s.OnlyRecord > 0 }
