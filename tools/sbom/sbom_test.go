package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// TestBill reads the bill of this test's own binary: every module that the linker names is in it, with its checksum,
// and twice the same.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := write(self, w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two bills of one binary differ")
	}
	var bom struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			Name, Version, Purl string
			Properties          []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(first.Bytes(), &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" {
		t.Fatalf("%+v, %v", bom, err)
	}
	for _, c := range bom.Components {
		if c.Name == "github.com/CycloneDX/cyclonedx-go" && c.Version != "" && len(c.Properties) == 1 &&
			c.Properties[0].Value != "" {
			return
		}
	}
	t.Errorf("the bill lacks a module: %s", first.Bytes())
}

func TestNoBill(t *testing.T) {
	if err := write("sbom_test.go", &bytes.Buffer{}); err == nil {
		t.Error("a file that is no binary has a bill")
	}
}
