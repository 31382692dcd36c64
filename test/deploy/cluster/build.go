package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Binaries are the programs that a cluster consists of, as paths.
type Binaries struct {
	Etcd, APIServer, ControllerManager, Scheduler, Enter string
}

// Build builds what is not yet in the cache: the folder mediator-test of the user's cache folder. A program is built
// anew when its sources, or Go's version, change. The first time takes some minutes. Processes may call it at the same
// time.
func Build() (Binaries, error) {
	module, err := moduleRoot()
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, err
	}
	cache = filepath.Join(cache, "mediator-test")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Binaries{}, err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()

	controlPlane := filepath.Join(module, "controlplane")
	etcd, err := build(cache, "etcd", filepath.Join(controlPlane, "etcd"), ".")
	if err != nil {
		return Binaries{}, err
	}
	kube, err := build(cache, "kube", filepath.Join(controlPlane, "kube"), ".")
	if err != nil {
		return Binaries{}, err
	}
	enter, err := build(cache, "enter", module, "node/sandbox")
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Etcd: etcd, Enter: enter}
	for name, path := range map[string]*string{
		"kube-apiserver": &b.APIServer, "kube-controller-manager": &b.ControllerManager, "kube-scheduler": &b.Scheduler,
	} {
		*path = filepath.Join(filepath.Dir(kube), name)
		if err := os.Symlink("kube", *path); err != nil && !os.IsExist(err) {
			return Binaries{}, err
		}
	}
	return b, nil
}

// linked are the linker's flags. The API server says its version to Helm, which compares it with the chart's
// kubeVersion.
const linked = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2"

// build returns the program of a module, from the cache if it was built from the same sources.
func build(cache, name, module, sources string) (string, error) {
	key, err := hashOf(module, sources)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, name+"-"+key, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "deploy: building %s for the tests; this takes some minutes the first time\n", name)
	target := "."
	if sources != "." {
		target = "./" + sources + "/" + name
	}
	cmd := exec.Command("go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags="+linked, "-o",
		path+".new", target)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, output)
	}
	return path, os.Rename(path+".new", path)
}

// hashOf covers go.mod, go.sum and the Go files of a module's folder, and Go's version.
func hashOf(module, sources string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), linked)
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	err := filepath.WalkDir(filepath.Join(module, sources), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%d\n%s", len(raw), raw)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// lock waits until no other process builds.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// moduleRoot is the folder of this module, in which the tests run.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "controlplane", "kube", "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("run it inside test/deploy: there is no controlplane/kube above the working folder")
}
