package observe_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// The users of these tests: the agent, a group that it is in, and somebody else.
const agentUID, agentTeam, otherUID = 4242, 4300, 4243

// tree makes files below a folder that everybody can pass. They are separated by ", ": each is "KIND PATH OWNER MODE"
// or "link PATH TARGET OWNER". A target that begins with / is below the folder too.
func tree(t *testing.T, files string) (root string) {
	t.Helper()
	full.Only(t, "root")
	root = openFolder(t)
	var modes []func()
	for line := range strings.SplitSeq(files, ", ") {
		var kind, path, target string
		var owner int
		var mode uint32
		if strings.HasPrefix(line, "link ") {
			_, err := fmt.Sscan(line, &kind, &path, &target, &owner)
			check.Must(t, err)
			if filepath.IsAbs(target) {
				target = root + target
			}
			check.Must(t, os.Symlink(target, root+path))
			check.Must(t, os.Lchown(root+path, owner, owner))
			continue
		}
		_, err := fmt.Sscanf(line, "%s %s %d %o", &kind, &path, &owner, &mode)
		check.Must(t, err)
		switch kind {
		case "dir":
			if path != "/" {
				check.Must(t, os.Mkdir(root+path, 0o700))
			}
		case "file":
			check.Must(t, os.WriteFile(root+path, nil, 0o600))
		default:
			t.Fatalf("what is a %s?", kind)
		}
		check.Must(t, os.Chown(root+path, owner, owner))
		modes = append(modes, func() { check.Must(t, unix.Chmod(root+path, mode)) })
	}
	for _, set := range modes {
		set()
	}
	return root
}

// openFolder makes a folder that others can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check.Must(t, os.Chmod(d, 0o755))
	}
	return dir
}

func TestTheWholeWayIsLookedAt(t *testing.T) {
	many := "file /f 0 600"
	for i := range 41 {
		many += fmt.Sprintf(", link /l%d l%d 0", i+1, i)
	}
	for _, tt := range []struct {
		name string
		tree string
		path string
		want look.Result
		seen string // ROOT is the folder of the tree
	}{
		{"a link in a folder of the agent",
			"dir /safe 0 755, file /safe/f 0 600, dir /conf 4242 700, link /conf/link /safe/f 0", "/conf/link",
			look.Contradicts, "replace ROOT/conf/link"},
		{"a link in an open folder",
			"dir /safe 0 755, file /safe/f 0 600, dir /conf 0 777, link /conf/link ../safe/f 0",
			"/conf/link", look.Contradicts, "replace ROOT/conf/link"},
		{"a folder that is a link in an open folder",
			"dir /safe 0 755, file /safe/f 0 600, dir /conf 0 777, link /conf/link /safe 0", "/conf/link/f",
			look.Contradicts, "replace ROOT/conf/link/f, at ROOT/conf/link"},
		{"a link between links",
			"dir /safe 0 755, file /safe/f 0 600, dir /mid 0 777, link /mid/link /safe/f 0, link /link /mid/link 0",
			"/link", look.Contradicts, "replace ROOT/link, at ROOT/mid/link"},
		{"the target's folder is open",
			"dir /open 0 777, dir /open/in 0 755, file /open/in/f 0 600, dir /conf 0 755, link /conf/link /open/in/f 0",
			"/conf/link", look.Contradicts, "replace ROOT/conf/link, at ROOT/open/in"},
		{"the target can be read", "dir /safe 0 755, file /safe/f 0 644, link /link safe/f 0", "/link",
			look.Contradicts, "read ROOT/link, at ROOT/safe/f"},
		{"a closed folder holds a link to an open one",
			"dir /open 0 777, file /open/f 0 600, dir /closed 0 700, link /closed/link /open/f 0", "/closed/link",
			look.Contradicts, "at ROOT/open/f"},
		{"a relative link in a closed folder leaves it",
			"dir /open 0 777, file /open/f 0 600, dir /closed 0 700, link /closed/link ../open/f 0", "/closed/link",
			look.Contradicts, "at ROOT/open/f"},
		{"the folder above a link's target, not above the link",
			"dir /b 0 777, dir /b/c 0 755, file /b/f 0 600, dir /a 0 755, file /a/f 0 600, link /a/link /b/c 0",
			"/a/link/../f", look.Contradicts, "at ROOT/b/c"},
		{"the folder above a link's target is closed",
			"dir /b 0 700, dir /b/c 0 755, file /b/f 0 644, dir /a 0 755, file /a/f 0 644, link /a/link /b/c 0",
			"/a/link/../f", look.Holds, ""},
		{"a link to a missing file in an open folder", "dir /open 0 777, link /link open/later 0", "/link",
			look.Contradicts, "replace ROOT/link, at ROOT/open/later"},
		{"a link to a missing file in a closed folder", "dir /safe 0 755, link /link safe/later 0", "/link", look.Holds,
			""},
		{"a link to a missing folder", "dir /safe 0 755, link /link safe/later 0", "/link/f", look.NotObserved,
			"lstat ROOT/safe/later: no such file"},
		{"a missing folder in an open one", "dir /open 0 1777", "/open/later/f", look.Contradicts,
			"at ROOT/open/later"},
		{"a missing folder in a closed one", "dir /closed 0 700", "/closed/later/f", look.Holds, ""},
		{"a circle of links", "link /a b 0, link /b a 0", "/a/f", look.NotObserved, "too many levels"},
		{"a circle of links, one of them in an open folder", "dir /open 0 777, link /open/a /b 0, link /b open/a 0",
			"/b", look.Contradicts, "at ROOT/open/a"},
		{"as many links as the kernel follows", many, "/l40", look.Holds, ""},
		{"more links than the kernel follows", many, "/l41", look.NotObserved, "too many levels"},
		{"a file for a folder", "file /f 0 600", "/f/g", look.NotObserved, "not a directory"},
		{"a sticky folder of the agent", "dir /s 4242 1777, file /s/f 4243 600", "/s/f", look.Contradicts, "replace"},
		{"a sticky folder of the agent that it may not write to yet", "dir /s 4242 1555, file /s/f 4243 600", "/s/f",
			look.Contradicts, "replace"},
		{"the agent's link in a sticky folder", "file /f 0 600, dir /s 0 1777, link /s/link ../f 4242", "/s/link",
			look.Contradicts, "replace"},
		{"another's link in a sticky folder", "file /f 0 600, dir /s 0 1777, link /s/link ../f 4243", "/s/link",
			look.Holds, ""},
		{"another's folder in a sticky folder", "dir /s 0 1777, dir /s/d 4243 755, file /s/d/f 4243 600", "/s/d/f",
			look.Holds, ""},
		{"the agent's folder in a sticky folder", "dir /s 0 1777, dir /s/d 4242 555, file /s/d/f 4243 600", "/s/d/f",
			look.Contradicts, "at ROOT/s/d"},
		{"a missing file in a sticky folder", "dir /s 4243 1777", "/s/later", look.Contradicts, "replace"},
		{"a missing file in a folder that the agent may not write to", "dir /s 4243 755", "/s/later", look.Holds, ""},
		{"a missing folder in such a folder", "dir /s 4243 755", "/s/absent/later", look.NotObserved,
			"absent: no such file"},
		{"an open folder in a closed one", "dir /d 4243 700, dir /d/open 0 777, file /d/open/f 4243 600", "/d/open/f",
			look.Holds, ""},
		{"needless parts", "dir /d 0 755, file /d/f 0 644", "/./d//.././d/f", look.Contradicts, "read"},
		{"a folder by the one above a folder in it", "dir /d 0 777, dir /d/e 0 700", "/d/e/..", look.Contradicts,
			"at ROOT/d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.tree)
			got := files(observe.Agent{UID: agentUID}, observe.Path{Name: root + tt.path, Secret: true})
			if got.Result != tt.want || !strings.Contains(got.Seen, strings.ReplaceAll(tt.seen, "ROOT", root)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestARelativePathStartsWhereTheProcessIs(t *testing.T) {
	root := tree(t,
		"dir /conf 0 755, file /conf/f 0 644, dir /conf/open 0 777, file /conf/open/f 0 600, link /here conf 0")
	for _, wd := range []string{root, root + "/conf", root + "/here"} {
		t.Chdir(wd)
		prefix := "conf/"
		if wd != root {
			prefix = "../conf/"
		}
		for path, want := range map[string]look.Result{"f": look.Holds, "open/f": look.Contradicts,
			"open/../f": look.Holds} {
			if got := files(observe.Agent{UID: agentUID}, observe.Path{Name: prefix + path}); got.Result != want {
				t.Errorf("in %s: %+v", wd, got)
			}
		}
	}
}

// TestAnErrorHidesNoContradiction judges all paths, even if some cannot be read.
func TestAnErrorHidesNoContradiction(t *testing.T) {
	root := tree(t, "dir /safe 0 755, dir /open 0 777, file /open/f 0 600, dir /listed 0 755, file /listed/f 0 600, "+
		"dir /listed/open 0 777, link /out listed/link 0, link /listed/link /open/f 0, dir /closed 0 700, "+
		"file /closed/f 0 600, file /own 0 600")
	for _, path := range []string{"/listed", "/closed/f", "/own"} {
		check.Must(t, unix.Setxattr(root+path, "system.posix_acl_access", accessList(agentUID, 7), 0))
	}
	missing, list, replaced := root+"/safe/absent/f", root+"/listed/f", root+"/open/f"
	for _, tt := range []struct {
		name  string
		user  observe.Agent
		paths []string
		want  look.Result
		seen  []string
	}{
		{"a missing folder, then an open one", observe.Agent{UID: agentUID}, []string{missing, replaced},
			look.Contradicts, []string{"replace " + replaced + ";", missing + " could not be looked at"}},
		{"a list, then an open folder", observe.Agent{UID: agentUID}, []string{list, replaced}, look.Contradicts,
			[]string{"replace " + replaced + ";", list + " could not be looked at"}},
		{"two that cannot be looked at", observe.Agent{UID: agentUID}, []string{missing, list}, look.NotObserved,
			[]string{missing + " could not be looked at: lstat",
				list + " could not be looked at: an access control list adds to the mode of " + root + "/listed"}},
		{"two open ones", observe.Agent{UID: agentUID}, []string{root + "/open", replaced}, look.Contradicts,
			[]string{"write " + root + "/open;", "replace " + replaced + "."}},
		{"an open folder behind a list", observe.Agent{UID: agentUID}, []string{root + "/out"}, look.Contradicts,
			[]string{"replace " + root + "/out, at " + replaced}},
		{"an open folder below a list", observe.Agent{UID: agentUID}, []string{root + "/listed/open/later"},
			look.NotObserved, []string{"an access control list"}},
		{"a list of the file itself", observe.Agent{UID: agentUID}, []string{root + "/own"}, look.NotObserved,
			[]string{"access control list"}},
		{"the owner of what has a list", observe.Agent{UID: 0}, []string{list}, look.Contradicts, []string{"replace"}},
		{"a list in a closed folder", observe.Agent{UID: agentUID}, []string{root + "/closed/f"}, look.Holds, nil},
		{"a user whom no list names", observe.Anyone(), []string{list}, look.Holds, nil},
		{"an open folder below a list, for a user whom no list names", observe.Anyone(),
			[]string{root + "/listed/open/later"}, look.Contradicts,
			[]string{"a user who owns nothing and is in no group can replace"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var paths []observe.Path
			for _, p := range tt.paths {
				paths = append(paths, observe.Path{Name: p})
			}
			got := files(tt.user, paths...)
			if got.Result != tt.want {
				t.Errorf("got %+v", got)
			}
			for _, s := range tt.seen {
				if !strings.Contains(got.Seen, s) {
					t.Errorf("%q does not say %q", got.Seen, s)
				}
			}
		})
	}
	var all []observe.Path
	for i := range 20 {
		all = append(all, observe.Path{Name: fmt.Sprintf("%s/open/%d", root, i)})
	}
	if got := files(observe.Agent{UID: agentUID}, all...); !strings.HasSuffix(got.Seen, "; and 14 more.") {
		t.Errorf("of 20 files: %s", got.Seen)
	}
}

// A user without groups counts as much as the agent's user.
func TestTwoUsers(t *testing.T) {
	root := tree(t, "dir /d 0 755, file /d/f 4300 604, file /d/g 4300 640, file /d/h 0 600")
	users := []observe.Agent{{UID: agentUID, GIDs: []uint32{agentTeam}}, observe.Anyone()}
	for path, want := range map[string]string{
		"/d/f": "By owner and mode, a user who owns nothing and is in no group can read " + root + "/d/f.",
		"/d/g": "By owner and mode, the agent's user 4242 can read " + root + "/d/g.",
		"/d/h": "By owner and mode, this process's 1 files and folders can be neither changed nor replaced, nor the " +
			"secret ones read, by the agent's user 4242 or by a user who owns nothing and is in no group.",
	} {
		if got := observe.LookAtFiles(users, observe.Path{Name: root + path, Secret: true}); got.Seen != want {
			t.Errorf("got %q, want %q", got.Seen, want)
		}
	}
}

// accessList is an access control list that gives one user rights (linux/posix_acl_xattr.h).
func accessList(user, rights uint32) []byte {
	list := []byte{2, 0, 0, 0} // the version, then a tag, rights and a user in each entry
	for _, e := range []struct{ tag, rights, user uint32 }{{1, 7, 0}, {2, rights, user}, {4, 5, 0}, {0x10, 7, 0},
		{0x20, 5, 0}} {
		list = binary.LittleEndian.AppendUint32(list, e.tag|e.rights<<16)
		list = binary.LittleEndian.AppendUint32(list, e.user)
	}
	return list
}

// FuzzLookAtFiles compares the judgement of random trees with what users of the kernel can do there: neither "holds"
// nor "contradicts" may be wrong.
func FuzzLookAtFiles(f *testing.F) {
	full.Only(f, "root")
	for seed := range uint64(80) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		who, user := observe.Agent{UID: agentUID, GIDs: []uint32{agentUID, agentTeam}},
			thief{uid: agentUID, gids: []uint32{agentUID, agentTeam}}
		if r.IntN(3) == 0 {
			who, user = observe.Anyone(), thief{uid: 77777, gids: []uint32{77777}}
		}
		w := newWood(t, r)
		type judged struct {
			path   observe.Path
			result look.Observation
			theft  theft
		}
		var all []judged
		for range 12 {
			p := observe.Path{Name: w.root + "/" + w.path(), Secret: r.IntN(2) == 0}
			all = append(all, judged{p, files(who, p), w.plan(t, p)})
		}
		user.act(func() { w.seize() })
		for _, j := range all {
			done := ""
			user.act(func() { done = j.theft.commit() })
			if done != "" && j.result.Result == look.Holds {
				t.Errorf("%+v: user %d could %s, and the look says: %s\n%s", j.path, user.uid, done, j.result.Seen, w)
			}
			if done == "" && j.result.Result == look.Contradicts && j.theft.physical != "" {
				t.Errorf("%+v: user %d could do nothing, and the look says: %s\n%s", j.path, user.uid, j.result.Seen, w)
			}
			if j.result.Result == look.NotObserved && j.theft.physical != "" && !w.listed {
				t.Errorf("%+v: nothing hinders a look: %s\n%s", j.path, j.result.Seen, w)
			}
		}
	})
}

// wood is a random tree of folders, files and links.
type wood struct {
	r      *rand.Rand
	root   string
	all    []string // folders before their entries
	lines  []string
	listed bool // an access control list is somewhere
}

func newWood(t *testing.T, r *rand.Rand) *wood {
	t.Helper()
	w := &wood{r: r, root: openFolder(t)}
	w.fill(t, w.root, 3)
	for _, path := range w.all { // now, so that the tree can be made for every owner
		info, err := os.Lstat(path)
		check.Must(t, err)
		owner, group := pick(r, 0, 0, agentUID, otherUID), pick(r, 0, agentTeam, otherUID)
		check.Must(t, os.Lchown(path, owner, group))
		mode := pick(r, 0o755, 0o755, 0o700, 0o711, 0o777, 0o1777, 0o1777, 0o775, 0o1775, 0o750, 0o770, 0o555, 0o744,
			0o733, 0o705)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			continue
		case info.Mode().IsRegular():
			mode = pick(r, 0o644, 0o600, 0o600, 0o666, 0o640, 0o660, 0o622, 0o604)
		}
		check.Must(t, unix.Chmod(path, uint32(mode)))
		line := fmt.Sprintf("%s %d:%d %o", strings.TrimPrefix(path, w.root), owner, group, mode)
		if r.IntN(40) == 0 {
			check.Must(t, unix.Setxattr(path, "system.posix_acl_access",
				accessList(pick(r, uint32(agentUID), otherUID), pick(r, uint32(0), 5, 7)), 0))
			w.listed = true
			line += " +"
		}
		w.lines = append(w.lines, line)
	}
	return w
}

func (w *wood) String() string { return strings.Join(w.lines, "\n") }

func (w *wood) fill(t *testing.T, dir string, depth int) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		path := dir + "/" + name
		switch k := w.r.IntN(10); {
		case k < 4 && depth > 0:
			check.Must(t, os.Mkdir(path, 0o755))
			w.all = append(w.all, path)
			w.fill(t, path, depth-1)
		case k < 6:
			check.Must(t, os.WriteFile(path, nil, 0o600))
			w.all = append(w.all, path)
		case k < 9:
			target := pick(w.r, "", "../", "../../", w.root+"/", w.root+"/") + w.path()
			check.Must(t, os.Symlink(target, path))
			w.all = append(w.all, path)
			w.lines = append(w.lines, strings.TrimPrefix(path, w.root)+" -> "+target)
		}
	}
}

// path returns a random path in a tree.
func (w *wood) path() string {
	parts := []string{pick(w.r, "a", "b", "c")}
	for w.r.IntN(3) > 0 && len(parts) < 6 {
		parts = append(parts, pick(w.r, "a", "b", "c", "a", "b", "c", ".."))
	}
	return strings.Join(parts, "/")
}

// seize opens everything that belongs to the user and that it gets at.
func (w *wood) seize() {
	for _, path := range w.all {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			_ = os.Chmod(path, 0o777)
		}
	}
}

// theft is what a user would do to a path.
type theft struct {
	path     observe.Path
	physical string   // what the path leads to; empty if it leads nowhere
	entries  []string // what the path rests on: if one of these has another name, the path leads elsewhere
}

// plan finds out, as root, what a path rests on.
func (w *wood) plan(t *testing.T, p observe.Path) theft {
	t.Helper()
	th := theft{path: p}
	th.physical, _ = filepath.EvalSymlinks(p.Name)
	before := identity(p.Name)
	for _, path := range slices.Backward(w.all) {
		check.Must(t, os.Rename(path, path+"~"))
		if identity(p.Name) != before {
			th.entries = append(th.entries, path)
		}
		check.Must(t, os.Rename(path+"~", path))
	}
	return th
}

// identity describes the end of a path, or why there is none.
func identity(path string) string {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return err.Error()
	}
	return fmt.Sprint(s.Dev, s.Ino)
}

// commit does what it can, takes it back, and says what it was.
func (th theft) commit() string {
	for _, path := range th.entries {
		if os.Rename(path, path+"~") == nil {
			_ = os.Rename(path+"~", path)
			return "rename " + path
		}
	}
	if th.physical == "" {
		return th.create()
	}
	if f, err := os.Open(th.physical); err == nil {
		f.Close()
		if th.path.Secret {
			return "read " + th.physical
		}
	}
	f, err := os.OpenFile(th.physical, os.O_WRONLY, 0)
	if errors.Is(err, unix.EISDIR) {
		f, err = os.OpenFile(th.physical+"/new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return ""
	}
	f.Close()
	_ = os.Remove(th.physical + "/new")
	return "write to " + th.physical
}

// create makes a missing folder or file of the path.
func (th theft) create() string {
	for i, c := range th.path.Name {
		if c == '/' && i > 0 && os.Mkdir(th.path.Name[:i], 0o700) == nil {
			_ = os.Remove(th.path.Name[:i])
			return "make the folder " + th.path.Name[:i]
		}
	}
	if f, err := os.OpenFile(th.path.Name, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		f.Close()
		if physical, err := filepath.EvalSymlinks(th.path.Name); err == nil {
			_ = os.Remove(physical)
		}
		return "make the file " + th.path.Name
	}
	return ""
}

// thief is a user of the kernel.
type thief struct {
	uid  uint32
	gids []uint32
}

// act does something as the user, on a thread of its own that ends with it.
func (u thief) act(do func()) {
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread keeps the credentials and ends
		_, _, err := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(u.gids)),
			uintptr(unsafe.Pointer(&u.gids[0])), 0)
		gid, uid := uintptr(u.gids[0]), uintptr(u.uid)
		if err == 0 {
			_, _, err = syscall.RawSyscall(syscall.SYS_SETRESGID, gid, gid, gid)
		}
		if err == 0 {
			_, _, err = syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid)
		}
		if err == 0 {
			do()
		}
		done <- err
	}()
	if err := <-done; err != 0 {
		panic("act as another user, which takes root: " + err.Error())
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // the change of a user clears it, for the whole process
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
