package config

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "write the page that the test compares with")

// TestDocsConfiguration compares the configuration reference with what the types say; -update writes it.
func TestDocsConfiguration(t *testing.T) {
	const path = "../../docs/configuration.md"
	var want bytes.Buffer
	if err := writeReference(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/configuration.md is not what the types say: run make docs")
	}
}

// writeReference writes docs/configuration.md.
func writeReference(w io.Writer) error {
	options, err := configDocs()
	if err != nil {
		return err
	}
	fmt.Fprint(w, `# Configuration

Made from the configuration types by `+"`make docs`"+`; do not edit it by hand. The files are YAML, read strictly: an unknown key, a key
twice, a key without a value or a second document is an error with its line. `+"`mediator config check FILE`"+` reads a file as the process would;
`+"`mediator config schema serve|trigger|control|reputation|root`"+` prints a JSON Schema for editors. Relative paths are taken from the file's own folder.
Durations are written like 15s. What is *reloadable* can change while the process runs ([operations/reload.md](operations/reload.md)); all
else needs a restart. Complete examples are in [configs](../configs).
`)
	for _, root := range FileKinds {
		fmt.Fprintf(w, "\n## %s\n", root.Title)
		writeOptions(w, root.Type, "", options)
	}
	return nil
}

// writeOptions lists the keys of a type and, indented, those of the types below it.
func writeOptions(w io.Writer, t reflect.Type, indent string, options map[string][]optionDoc) {
	for _, f := range KeysOf(t) {
		comment := ""
		for _, o := range options[f.owner] {
			if o.key == f.Name {
				comment = o.comment
			}
		}
		if f.reload {
			comment += " *Reloadable.*"
		}
		fmt.Fprintf(w, "%s- %s\n", indent, comment)
		below := f.Type
		for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		if below.Kind() == reflect.Struct {
			writeOptions(w, below, indent+"  ", options)
		}
	}
}
