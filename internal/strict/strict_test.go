package strict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/test/check"
)

type part struct {
	Name string   `yaml:"name"`
	On   bool     `yaml:"on,omitempty"`
	List []string `yaml:"list,omitempty"`
}

type file struct {
	part  `yaml:",inline"`
	Parts []*part        `yaml:"parts,omitempty"`
	Share float64        `yaml:"share,omitempty"`
	Any   map[string]any `yaml:"any,omitempty"`
	Small uint8          `yaml:"small,omitempty"`
	Wait  wait           `yaml:"wait,omitempty"`
}

type wait time.Duration

func (w *wait) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*w = wait(d)
	return err
}

func FuzzRead(f *testing.F) {
	f.Add("name: a\nparts: [{name: b, on: true, list: [c]}]\nshare: 0.5\nany: {x: [1]}\nsmall: 255\nwait: 5s\n")
	f.Add("name: &a x\nparts: [*a, ~]\nsmall: 256\nwait: 5\non: yes")
	f.Add("a: [1\n")
	f.Add("<<: {name: x}\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, complete := range []bool{false, true} {
			var first, second file
			read, err := strict.Read([]byte(text), &first, strict.Options{Complete: complete})
			if err != nil {
				continue
			}
			if err := read.Err(""); err != nil {
				if strings.Contains(err.Error(), "line 0") || strings.Contains(err.Error(), "column 0") {
					t.Errorf("%q: %v", text, err)
				}
				continue
			}
			if again, err := strict.Read([]byte(text), &second, strict.Options{Complete: complete}); err != nil ||
				!again.Correct() || first.Name != second.Name || len(first.Parts) != len(second.Parts) {
				t.Errorf("%q: %+v and %+v, %v", text, first, second, err)
			}
		}
	})
}

func TestAdd(t *testing.T) {
	var to file
	f, err := strict.Read([]byte("name: x\nany: &all\n  y: [1, {z: 2}]\nparts:\n  - {name: b}\n"), &to,
		strict.Options{})
	check.Must(t, err)
	for _, tt := range []struct{ key, want string }{
		{"", "line 1, column 1: the file: is wrong"},
		{"name", "line 1, column 7: name: is wrong"},
		{"any.y[1].z", "line 3, column 14: any.y[1].z: is wrong"},
		{"parts[0].list", "line 5, column 5: parts[0].list: is wrong"},
		{"parts[7].name", "line 5, column 3: parts[7].name: is wrong"},
		{"name.of", "line 1, column 7: name.of: is wrong"},
		{"nothing", "line 1, column 1: nothing: is wrong"},
	} {
		g := *f
		g.Add(tt.key, "is %s", "wrong")
		if err := g.Err(""); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.key, err, tt.want)
		}
	}
}
