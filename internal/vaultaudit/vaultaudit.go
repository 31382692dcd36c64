// Package vaultaudit compares Vault's audit log, which has every signature of Vault, with the record, which has every
// artifact that the mediator used. A signature that only Vault has was made for somebody else, or for a post that broke
// off. One that only the record has is missing in the log.
//
//	vaultaudit.go  what is compared, and how it went
//	log.go         signatures, from the lines of an audit log
//	record.go      artifacts, from records, in the order of time
//	hash.go        how a device hashes, asked of Vault
//	compare.go     the comparison of the two, in the order of time
package vaultaudit

import (
	"time"
)

// Signature is a signature that Vault made with a key of the deployment's.
type Signature struct {
	Time    time.Time // when Vault answered
	Key     string    // the kid; without the version if Hidden
	Value   string    // of the signature, as the log has it: hashed by the audit device or, if that logs so, as it is
	Hidden  string    // why there is no value, see [Difference.Hidden]
	Request string    // Vault's id of the request
	Item    int       // which of the signatures of the request, from 0 on
	By      string    // the display name of the token
	Remote  string    // the address of who asked
}

// Artifact is a signed artifact of a record.
type Artifact struct {
	Time  time.Time // when it was signed, to the second, and not before the start of its record
	Key   string    // the kid
	Value string    // of the signature, as the log would have it; empty if that cannot be known
	Post  string    // the id of the record
	Name  string    // which artifact of the record
}

// Difference is a signature that only the log has, or an artifact that only the record has.
type Difference struct {
	Only     string    `json:"only"` // vault or record
	Time     time.Time `json:"time"`
	Key      string    `json:"key"`
	Request  string    `json:"request,omitempty"`
	Item     int       `json:"item,omitempty"`
	By       string    `json:"by,omitempty"`
	Remote   string    `json:"remote,omitempty"`
	Post     string    `json:"post,omitempty"`
	Artifact string    `json:"artifact,omitempty"`
	// Hidden is the reason why the log does not show an answer, perhaps of several signatures: [HiddenWrapped] or
	// [HiddenLeftOut]. The mediator never asks for such an answer. Key then has no version.
	Hidden string `json:"hidden,omitempty"`
	// Refused is the id of a post that was refused around that time: the signature may have been made for it. It proves
	// nothing, since a thief of a key can choose the moment.
	Refused string `json:"refused,omitempty"`
}

// The values of [Difference.Hidden].
const (
	HiddenWrapped = "wrapped"  // Vault gave a token with which the answer is read once, and logged that alone
	HiddenLeftOut = "left out" // the line has neither a signature nor an error
)

// OnlyVault and OnlyRecord are the values of [Difference.Only].
const (
	OnlyVault  = "vault"
	OnlyRecord = "record"
)

// Summary counts the comparison. Signatures is Matched plus OnlyVault, and Artifacts is Matched plus OnlyRecord: a pair
// counts if either part lies in the range.
type Summary struct {
	// Exact: the signatures themselves were compared. Otherwise only their keys, times and numbers were: an unrecorded
	// signature then passes for one that is missing in the log at about the same time.
	Exact bool      `json:"exact"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until"`
	// in the log, of the compared keys; an answer that hides them counts as one
	Signatures int `json:"signatures"`
	Artifacts  int `json:"artifacts"` // in the record, of these keys
	Matched    int `json:"matched"`
	Repeated   int `json:"repeated"`  // signatures that Vault made again over the same, as when a connection broke
	OtherKeys  int `json:"otherKeys"` // signatures of other keys of the same mount, such as the roots'
	OnlyVault  int `json:"onlyVault"`
	OnlyRecord int `json:"onlyRecord"`
}

// Differ reports whether there were differences.
func (s Summary) Differ() bool { return s.OnlyVault+s.OnlyRecord > 0 }
