// Command members makes proxy/inference/members/published.txt anew from the official SDKs, whose types are generated
// from the providers' descriptions of their APIs, and lists the names that nobody has classified yet.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/proxy/inference/members"
)

func main() {
	file := flag.String("file", "../proxy/inference/members/published.txt", "the table")
	from := flag.String("from", "", "a folder with node_modules (default: the newest packages, from npm)")
	flag.Parse()
	unclassified, gone, err := run(*file, *from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "members:", err)
		os.Exit(1)
	}
	for _, name := range gone {
		fmt.Println("no longer published; extra.txt is the place for what models still take:", name)
	}
	for _, name := range unclassified {
		fmt.Println("not classified yet:", name)
	}
	if len(unclassified) > 0 {
		os.Exit(1)
	}
}

func run(file, from string) (unclassified, gone []string, err error) {
	if from == "" {
		if from, err = os.MkdirTemp("", "members-"); err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(from)
		install := exec.Command("npm", append(strings.Fields(
			"install --prefix "+from+" --ignore-scripts --no-audit --no-fund --omit=optional --loglevel=error"), latest()...)...)
		install.Stderr = os.Stderr
		if err := install.Run(); err != nil {
			return nil, nil, fmt.Errorf("npm install: %w", err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	old, err := members.Parse(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	table, err := read(filepath.Join(from, "node_modules"))
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Made on %s by tools/members, which keeps the classes. They are a person's judgement.\n",
		time.Now().Format(time.DateOnly))
	for _, name := range packages() {
		version, err := version(filepath.Join(from, "node_modules", name, "package.json"))
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&out, "# %s %s\n", name, version)
	}
	for place, names := range old {
		for name := range names {
			if _, found := table[place][name]; !found {
				gone = append(gone, string(place)+" "+name)
			}
		}
	}
	order := make([]members.Place, 0, len(places))
	for _, p := range places {
		order = append(order, p.name)
		for name := range table[p.name] {
			if table[p.name][name] = old[p.name][name]; old[p.name][name] == members.Unknown {
				unclassified = append(unclassified, string(p.name)+" "+name)
			}
		}
	}
	if err := write(&out, table, order); err != nil {
		return nil, nil, err
	}
	slices.Sort(unclassified)
	slices.Sort(gone)
	return unclassified, gone, os.WriteFile(file, out.Bytes(), 0o644)
}

func packages() (names []string) {
	for _, p := range places {
		for _, s := range p.sources {
			if !slices.Contains(names, s.pkg) {
				names = append(names, s.pkg)
			}
		}
	}
	return names
}

func version(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var p struct {
		Version string `json:"version"`
	}
	err = json.Unmarshal(raw, &p)
	return p.Version, err
}

// latest asks for the newest packages, also those that need a newer Node to run.
func latest() (names []string) {
	for _, name := range packages() {
		names = append(names, name+"@latest")
	}
	return names
}
