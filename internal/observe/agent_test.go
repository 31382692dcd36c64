package observe_test

import (
	"cmp"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
)

func TestProcess(t *testing.T) {
	for _, tt := range []struct {
		agent, process uint32
		want           look.Result
	}{
		{2000, 1000, look.Holds},
		{2000, 0, look.Holds},
		{1000, 1000, look.Contradicts},
		{0, 1000, look.Contradicts},
		{0, 0, look.Contradicts},
	} {
		if got := (observe.Agent{UID: tt.agent}).Process(tt.process); got.Result != tt.want || got.Name != look.Process ||
			got.Seen == "" {
			t.Errorf("agent %d, process %d: %+v", tt.agent, tt.process, got)
		}
	}
}

func TestFiles(t *testing.T) {
	own, group := uint32(os.Getuid()), uint32(os.Getgid())
	stranger := observe.Agent{UID: own + 4242, GIDs: []uint32{group + 4242}}
	member := observe.Agent{UID: own + 4242, GIDs: []uint32{group}}
	for _, tt := range []struct {
		name         string
		agent        observe.Agent
		folder, file os.FileMode
		want         look.Result
		word         string
	}{
		{"others may read", stranger, 0o755, 0o644, look.Contradicts, "read"},
		{"others may write", stranger, 0o755, 0o622, look.Contradicts, "write"},
		{"others may do nothing", stranger, 0o755, 0o600, look.Holds, ""},
		{"the folder is closed to others", stranger, 0o750, 0o644, look.Holds, ""},
		{"others may list the folder and not pass", stranger, 0o754, 0o644, look.Holds, ""},
		{"others may write to the folder", stranger, 0o777, 0o600, look.Contradicts, "replace"},
		{"the folder is sticky", stranger, 0o777 | os.ModeSticky, 0o600, look.Holds, ""},
		{"others may write to a folder that they cannot pass", stranger, 0o752, 0o600, look.Holds, ""},
		{"the group may read", member, 0o755, 0o640, look.Contradicts, "read"},
		{"the group may read, and is not the agent's", stranger, 0o755, 0o640, look.Holds, ""},
		{"the group may not, others may", member, 0o755, 0o604, look.Holds, ""},
		{"the folder is open to the group", member, 0o770, 0o600, look.Contradicts, "replace"},
		{"the owner", observe.Agent{UID: own}, 0o700, 0o400, look.Contradicts, "replace"},
		{"root", observe.Agent{UID: 0}, 0o000, 0o000, look.Contradicts, "replace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			open(t, root)
			dir := filepath.Join(root, "dir")
			file := filepath.Join(dir, "file")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for path, mode := range map[string]os.FileMode{file: tt.file, dir: tt.folder} {
				if err := os.Chmod(path, mode); err != nil && tt.folder != 0 {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
			got := files(tt.agent, observe.Path{Name: file, Secret: true})
			if got.Result != tt.want || !strings.Contains(got.Seen, tt.word) {
				t.Errorf("got %+v", got)
			}
			open := files(tt.agent, observe.Path{Name: file})
			if want := map[bool]look.Result{true: look.Contradicts,
				false: look.Holds}[tt.word == "write" || tt.word == "replace"]; open.Result != want {
				t.Errorf("as a file that is not secret: %+v", open)
			}
			if tt.word == "replace" { // then a file that is not there yet can be put there
				got = files(tt.agent, observe.Path{Name: filepath.Join(dir, "later")})
				if got.Result != look.Contradicts {
					t.Errorf("a file that is not there: %+v", got)
				}
			}
		})
	}
}

// TestFilesOfOthers observes files and folders of several owners.
func TestFilesOfOthers(t *testing.T) {
	const agent, other = 4242, 4243
	for _, tt := range []struct {
		name       string
		user       uint32
		owner      int // of the folder
		folder     os.FileMode
		fileOwner  int
		file, path string // the path looked at, from the folder; where it is another one than the file
		want       look.Result
		word       string
	}{
		{"the agent's folder", agent, agent, 0o500, other, "f", "", look.Contradicts, "replace"},
		{"the agent's file", agent, other, 0o555, agent, "f", "", look.Contradicts, "read"},
		{"root", 0, other, 0o000, other, "f", "", look.Contradicts, "replace"},
		{"the agent's file in a sticky folder", agent, other, 0o777 | os.ModeSticky, agent, "f", "", look.Contradicts,
			"replace"},
		{"another's file in a sticky folder", agent, other, 0o777 | os.ModeSticky, other, "f", "", look.Holds, ""},
		{"nobody's file in a sticky folder", agent, other, 0o777 | os.ModeSticky, other, "f", "later", look.Contradicts,
			"replace"},
		{"nobody's file in a folder that the agent may not write to", agent, other, 0o755, other, "f", "later", look.Holds,
			""},
		{"a folder that is not there", agent, other, 0o755, other, "f", "absent/later", look.NotObserved,
			"absent: no such file"},
		{"an open folder in a closed one", agent, other, 0o700, other, "open/f", "", look.Holds, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			open(t, root)
			dir := filepath.Join(root, "dir")
			file := filepath.Join(dir, tt.file)
			must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must(t, os.WriteFile(file, nil, 0o600))
			must(t, os.Chown(file, tt.fileOwner, tt.fileOwner)) // as root
			must(t, os.Chmod(filepath.Dir(file), 0o777))
			must(t, os.Chown(dir, tt.owner, tt.owner))
			must(t, os.Chmod(dir, tt.folder))
			got := files(observe.Agent{UID: tt.user},
				observe.Path{Name: filepath.Join(dir, cmp.Or(tt.path, tt.file)), Secret: true})
			if got.Result != tt.want || !strings.Contains(got.Seen, tt.word) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestFilesWithAList: an access control list makes the mode meaningless.
func TestFilesWithAList(t *testing.T) {
	root := t.TempDir()
	open(t, root)
	path := filepath.Join(root, "f")
	must(t, os.WriteFile(path, nil, 0o600))
	list := []byte{2, 0, 0, 0} // the version, then a tag, rights and a user in each entry (linux/posix_acl_xattr.h)
	for _, e := range []struct{ tag, rights, user uint32 }{{1, 6, 0}, {2, 4, 4242}, {4, 4, 0}, {0x10, 4, 0},
		{0x20, 0, 0}} {
		list = binary.LittleEndian.AppendUint32(list, e.tag|e.rights<<16)
		list = binary.LittleEndian.AppendUint32(list, e.user)
	}
	must(t, unix.Setxattr(path, "system.posix_acl_access", list, 0))
	if got := files(observe.Agent{UID: 4242}, observe.Path{Name: path, Secret: true}); got.Result != look.NotObserved ||
		!strings.Contains(got.Seen, "access control list") {
		t.Errorf("got %+v", got)
	}
}

// files observes files for one user.
func files(user observe.Agent, paths ...observe.Path) look.Observation {
	return observe.LookAtFiles([]observe.Agent{user}, paths...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (run the tests as root)", err)
	}
}

// open lets others pass through the folders of a test, which are closed by default.
func open(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALinkIsFollowed(t *testing.T) {
	root := t.TempDir()
	open(t, root)
	secret, link := filepath.Join(root, "secret"), filepath.Join(root, "link")
	if err := os.WriteFile(secret, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	if got := files(observe.Agent{UID: 4242}, observe.Path{Name: link, Secret: true}); got.Result != look.Contradicts ||
		!strings.Contains(got.Seen, link) {
		t.Errorf("got %+v", got)
	}
}

// TestSockets: a listener asks who connects, so it matters whom it admits and not who may write to the socket.
func TestSockets(t *testing.T) {
	root := t.TempDir()
	open(t, root)
	path := filepath.Join(root, "s.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	agent := observe.Agent{UID: 4242}
	for _, tt := range []struct {
		name  string
		path  string
		dir   os.FileMode
		users []uint32
		want  look.Result
		word  string
	}{
		{"others may connect and are dropped", path, 0o711, []uint32{1}, look.Holds, ""},
		{"the agent is admitted", path, 0o711, []uint32{1, 4242}, look.Contradicts, "connect to"},
		{"the agent is to be admitted", filepath.Join(root, "later.sock"), 0o711, []uint32{4242}, look.Contradicts,
			"connect to"},
		{"the agent is admitted and cannot get there", path, 0o700, []uint32{4242}, look.Holds, ""},
		{"the agent can put another socket there", path, 0o777, nil, look.Contradicts, "replace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for path, mode := range map[string]os.FileMode{path: 0o666, root: tt.dir} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			if got := files(agent, observe.Path{Name: tt.path, Users: tt.users}); got.Result != tt.want ||
				!strings.Contains(got.Seen, tt.word) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
