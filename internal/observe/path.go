package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links of one path, as Linux does (path_resolution(7)).
const maxLinks = 40

// walk follows one path as the kernel does: component by component and through symbolic links, where ".." is the folder
// above a link's target. At each component it judges whether the user can replace it.
type walk struct {
	user  Agent
	rest  []string // the components to follow
	way   []node   // the nodes from / to the current one
	links int      // the followed symbolic links

	found string // what the user can certainly do, such as "replace /a/b"
	doubt error  // why something could not be judged, the first time
}

// access returns something that the user can do to p but must not. If there is nothing, doubt says what could not be
// judged.
func (a Agent) access(p Path) (found string, doubt error) {
	path := p.Name
	if !filepath.IsAbs(path) { // filepath.Abs would remove "..", but what that means after a link only the link says
		dir, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = dir + "/" + path
	}
	root, err := a.at("/", node{dir: true, reached: true, search: true})
	if err != nil {
		return "", err
	}
	w := &walk{user: a, rest: components(path), way: []node{root}}
	for len(w.rest) > 0 && w.found == "" {
		if err := w.step(p.Name); err != nil {
			w.unsure(err)
			return w.found, w.doubt
		}
	}
	w.arrive(p)
	return w.found, w.doubt
}

func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(c string) bool { return c == "" || c == "." })
}

// step follows the next component of the path name. An error ends the walk.
func (w *walk) step(name string) error {
	dir, part := w.way[len(w.way)-1], w.rest[0]
	w.rest = w.rest[1:]
	if !dir.dir {
		return &fs.PathError{Op: "lstat", Path: filepath.Join(dir.path, part), Err: unix.ENOTDIR}
	}
	if part == ".." {
		w.way = w.way[:max(1, len(w.way)-1)]
		return nil
	}
	next, err := w.user.at(filepath.Join(dir.path, part), dir)
	if err != nil && !next.missing {
		return err
	}
	if dir.replaceable(next) {
		w.note("replace", name, next.path, dir.doubt)
	}
	switch {
	case next.link:
		return w.follow(next.path)
	case next.missing && len(w.rest) > 0 && next.reached: // who makes the folder may open it to the user
		return err
	case next.missing:
		w.rest = nil
	}
	w.way = append(w.way, next)
	return nil
}

func (w *walk) follow(link string) error {
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "readlink", Path: link, Err: unix.ELOOP}
	}
	to, err := os.Readlink(link)
	if err != nil {
		return err
	}
	if filepath.IsAbs(to) {
		w.way = w.way[:1]
	}
	w.rest = append(components(to), w.rest...)
	return nil
}

func (w *walk) arrive(p Path) {
	end := w.way[len(w.way)-1]
	switch {
	case !end.reached:
	case slices.Contains(p.Users, w.user.UID):
		w.note("connect to", p.Name, end.path, end.doubt)
	case p.Secret && end.read:
		w.note("read", p.Name, end.path, end.doubt)
	case end.write && !end.socket:
		w.note("write", p.Name, end.path, end.doubt)
	}
}

// note keeps what the user can do. With a doubt, the user only perhaps can.
func (w *walk) note(verb, name, at string, doubt error) {
	switch {
	case doubt != nil:
		w.unsure(doubt)
	case w.found != "":
	case at != name:
		w.found = fmt.Sprintf("%s %s, at %s", verb, name, at)
	default:
		w.found = verb + " " + name
	}
}

func (w *walk) unsure(err error) {
	if w.doubt == nil {
		w.doubt = err
	}
}

// node is a file, a folder or a link on the way, and what the user may do there.
type node struct {
	path                       string
	missing, dir, link, socket bool
	owned, sticky              bool // owned: by the user, or the user is root
	read, write, search        bool
	// reached is set if the user can pass through all folders above.
	reached bool
	// doubt is set if the user may be able to do less than the fields above say.
	doubt error
}

// replaceable reports whether the user can replace a thing in the folder n: it can write there, and if the folder is
// sticky, it owns the folder or the thing, or the thing is missing (unlink(2)).
func (n node) replaceable(thing node) bool {
	return thing.reached && n.write && (!n.sticky || n.owned || thing.owned || thing.missing)
}

// at returns the node at path, in the folder above.
func (a Agent) at(path string, above node) (node, error) {
	n := node{path: path, reached: above.reached && above.search, doubt: above.doubt}
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		n.missing = errors.Is(err, fs.ErrNotExist)
		return n, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	kind, bits := s.Mode&unix.S_IFMT, s.Mode
	n.dir, n.link, n.socket = kind == unix.S_IFDIR, kind == unix.S_IFLNK, kind == unix.S_IFSOCK
	n.owned, n.sticky = a.UID == 0 || a.UID == s.Uid, s.Mode&unix.S_ISVTX != 0
	if n.link {
		return n, nil // the mode of a link means nothing
	}
	switch err := listed(path); {
	case n.owned: // an owner can change the mode
		bits = 0o7
	case err != nil && a.UID != anyone:
		bits = 0o7
		if n.doubt == nil {
			n.doubt = err
		}
	case slices.Contains(a.GIDs, s.Gid):
		bits >>= 3
	}
	n.read, n.write, n.search = bits&4 != 0, bits&2 != 0, bits&1 != 0
	return n, nil
}

// listed returns an error if an access control list adds to a file's mode, or if that is unknown.
func listed(path string) error {
	n, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), err == nil && n == 0:
		return nil
	case err != nil:
		return &fs.PathError{Op: "getxattr", Path: path, Err: err}
	}
	return fmt.Errorf("an access control list adds to the mode of %s", path)
}
