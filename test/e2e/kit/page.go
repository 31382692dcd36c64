package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
)

// Section is one heading of a page with its commands and its YAML.
type Section struct {
	Title          string
	Commands, YAML []string
}

// ReadPage reads a page. Lines that begin with four spaces, outside of fenced blocks, are commands.
func ReadPage(t *testing.T, path string) []Section {
	t.Helper()
	sections := []Section{{}}
	fenced, going := false, false
	for line := range strings.Lines(string(Read(t, path))) {
		s := &sections[len(sections)-1]
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				s.YAML = append(s.YAML, "")
			}
		case fenced:
			s.YAML[len(s.YAML)-1] += line
		case strings.HasPrefix(line, "#"):
			sections = append(sections, Section{Title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		case indented && going:
			s.Commands[len(s.Commands)-1] += command
		case indented:
			s.Commands = append(s.Commands, command)
		}
		going = indented && strings.HasSuffix(line, "\\\n")
	}
	return sections
}

// Shell runs the commands of a page in the folder of a deployment.
type Shell struct {
	dir  string
	here *strings.Replacer // what differs from the page
	env  []string
}

// NewShell makes a shell in which mediator is the test's binary, and vault the server of the tests. here replaces what
// differs from the page; env are more variables.
func (r *Rig) NewShell(t *testing.T, here *strings.Replacer, env ...string) *Shell {
	t.Helper()
	bin := t.TempDir()
	check.Must(t, os.Symlink(Self(t), filepath.Join(bin, "mediator"))) // see Main
	check.Must(t, os.Symlink(r.In("run/serve.sock"), r.In("run/admin.sock")))
	vault, err := filepath.Abs(filepath.Join(Top, "bin"))
	check.Must(t, err)
	path := strings.Join([]string{bin, vault, os.Getenv("PATH")}, ":")
	return &Shell{r.Dir, here, slices.Concat(os.Environ(), env, []string{"PATH=" + path})}
}

// Start starts a command.
func (s *Shell) Start(t *testing.T, command string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", s.here.Replace(command))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	check.Must(t, cmd.Start())
	return cmd, &out
}

// Run runs a command, which has to succeed.
func (s *Shell) Run(t *testing.T, command string) (said string) {
	t.Helper()
	cmd, out := s.Start(t, command)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out.String()
}

// RunSection runs the commands of a section except those that skip selects.
func (s *Shell) RunSection(t *testing.T, of Section, skip func(command string) bool) (said string) {
	t.Helper()
	for _, command := range of.Commands {
		if !skip(command) {
			out := s.Run(t, command)
			t.Logf("%s: %s%s", of.Title, command, out)
			said += out
		}
	}
	return said
}

// StartByHand starts a prepared deployment as docs/operations/running.md says, up to the certificates of its keys.
func (r *Rig) StartByHand(t *testing.T, sh *Shell) {
	t.Helper()
	r.Stack = devstack.New(r.Dir)
	_, err := r.Stack.PinHashes()
	check.Must(t, err)
	sh.Run(t, `mkdir -m 0700 -p keys
		mediator keys root --name registry --out keys --post-quantum
		mediator keys root --name auditor --out keys --post-quantum && cp keys/registry.jwk keys/auditor.jwk .
		mediator deployment certify manifest.yaml --auditor-key keys/auditor.key.jwk \
			--audience posting-api --bundle trust.json`)
	t.Cleanup(r.Stack.Stop)
	for _, name := range Processes {
		check.Must(t, r.Stack.StartProcess(name, configurations[name]))
	}
	for _, p := range r.Stack.Processes {
		check.Must(t, r.Stack.WaitFor(t.Context(), p, "/healthz"))
	}
}
