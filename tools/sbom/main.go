// Command sbom writes the bill of materials of a Go binary (CycloneDX 1.6, JSON): what the linker wrote into it, and
// nothing else. The same binary always gives the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY > FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(path string, w io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	bom := cdx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: info.Main.Path, Type: cdx.ComponentTypeApplication, Name: filepath.Base(path), Group: info.Main.Path,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}}
	components := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	needs := []string{components[0].BOMRef}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		c := module(d.Path, d.Version, d.Sum)
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: info.Main.Path, Dependencies: &needs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// module is one Go module, with its checksum as go.sum has it.
func module(path, version, sum string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
		Scope: cdx.ScopeRequired}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
