// Package viewer makes one HTML page that verifies an export of records in a browser, without a network. The page
// holds the verifier of packages/typescript, the export, and the public keys that its maker pins.
package viewer

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"time"
)

var (
	//go:embed page.html
	layout string
	//go:embed page.css
	style string
	// script is built from packages/typescript/viewer by npm run viewer, whose tests hold the two together.
	//
	//go:embed page.js
	script string
)

// MaxExport bounds an export in a page, in bytes: a browser keeps several copies of it in memory.
const MaxExport = 32 << 20

// Page is what a page shows and verifies.
type Page struct {
	Name   string `json:"name"`   // of the export's file
	Export []byte `json:"export"` // the file, plain or compressed
	Pins   []Pins `json:"pins"`   // today's roots, then earlier ones
	// LogPolicy names the transparency log and its witnesses (c2sp.org/tlog-policy); empty without one.
	LogPolicy string    `json:"logPolicy,omitempty"`
	Made      time.Time `json:"made"`
	By        string    `json:"by"` // the program's version
}

// Pins are the files of two roots that the page's maker trusts.
type Pins struct {
	Registry string `json:"registry"` // a JWK, or a JWK Set of two
	Auditor  string `json:"auditor"`
	// Bundle is the maker's trust bundle, whose certificates and revocations the export may lack; empty without one.
	Bundle string `json:"bundle,omitempty"`
}

// Write writes the page. Its content security policy permits its own script and style, and no request.
func (p Page) Write(w io.Writer) error {
	data, err := json.Marshal(p) // without <, > and &: nothing in it ends its element
	if err != nil {
		return err
	}
	policy := "default-src 'none'; script-src " + hashOf(script) + "; style-src " + hashOf(style) +
		"; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	_, err = strings.NewReplacer("{{policy}}", policy, "{{style}}", style, "{{data}}", string(data),
		"{{script}}", script).WriteString(w, layout)
	return err
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
