package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// gitConfig returns git's configuration for an agent that starts in dir. Git refuses a repository of another user, such
// as the operator ("dubious ownership"), so the configuration names the repository that holds dir as safe.
func gitConfig(dir string) []byte {
	top := repository(dir)
	if top == "" {
		return nil
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(top)
	// The second is its name where it is cloned from.
	return fmt.Appendf(nil, "[safe]\n\tdirectory = \"%s\"\n\tdirectory = \"%s/.git\"\n", quoted, quoted)
}

// repository returns the repository that holds dir, or dir itself if there is none. It returns nothing unless one user
// owns all of it: a repository that another user put above or into dir could make git run programs.
func repository(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	whose := owner(dir)
	for at := dir; owner(at) == whose; at = filepath.Dir(at) {
		switch owner(filepath.Join(at, ".git")) {
		case whose:
			return at
		case nobody:
			if at == "/" {
				return dir
			}
		default:
			return ""
		}
	}
	return dir
}

const nobody = -1

func owner(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return nobody
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
