package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/actionproof/mediator/proxy/inference/members"
)

const width = 118

// write writes a table as [members.Parse] reads it, in the order of places.
func write(w io.Writer, t members.Table, places []members.Place) error {
	var out strings.Builder
	for _, p := range places {
		fmt.Fprintf(&out, "\n[%s]\n", p)
		for class := members.Unknown; class <= members.State; class++ {
			line := ""
			for _, name := range slices.Sorted(maps.Keys(t[p])) {
				switch {
				case t[p][name] != class:
				case line == "":
					line = class.String() + ": " + name
				case len(line)+1+len(name) > width:
					fmt.Fprintln(&out, line)
					line = class.String() + ": " + name
				default:
					line += " " + name
				}
			}
			if line != "" {
				fmt.Fprintln(&out, line)
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
