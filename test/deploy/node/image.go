package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/actionproof/mediator/test/deploy/node/sandbox"
)

// Image is what a container runs from: folders of this machine, shown to it under a layer that it may write to.
type Image struct {
	// Name is how pods name it: a repository, or a repository and a tag ("registry.test/mediator:1.0").
	Name string

	// Digest is "sha256:" and 64 hexadecimal digits. Empty means: computed from the files of Dir.
	Digest string

	// Dir is the root folder. Binds are more folders of the machine that belong to the image, at the paths that are the
	// keys.
	Dir   string
	Binds map[string]string

	Entrypoint, Cmd, Env []string
	User                 string // "uid" or "uid:gid"; empty is root
	WorkingDir           string
}

// images are the images that the node has. It pulls none.
type images struct {
	mu  sync.Mutex // guards all
	all []Image
}

func (i *images) add(image Image) (Image, error) {
	if image.Digest == "" {
		digest, err := digestOf(image.Dir)
		if err != nil {
			return Image{}, fmt.Errorf("digest of image %s: %w", image.Name, err)
		}
		image.Digest = digest
	}
	if !strings.HasPrefix(image.Digest, "sha256:") || len(image.Digest) != len("sha256:")+64 {
		return Image{}, fmt.Errorf("image %s: %q is no sha256 digest", image.Name, image.Digest)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, image)
	return image, nil
}

// find returns the image that a pod names, the last one added of that name.
func (i *images) find(reference string) (Image, error) {
	name, digest, pinned := strings.Cut(reference, "@")
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := len(i.all) - 1; n >= 0; n-- {
		image := i.all[n]
		if pinned && digest == image.Digest && repository(name) == repository(image.Name) {
			return image, nil
		}
		if !pinned && (name == image.Name || name == image.Name+":latest" || name+":latest" == image.Name) {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("the node has no image %s", reference)
}

// id is what a runtime reports as a container's imageID.
func (i Image) id() string { return repository(i.Name) + "@" + i.Digest }

func (i Image) binds() []sandbox.Mount {
	var mounts []sandbox.Mount
	for target, source := range i.Binds {
		mounts = append(mounts, sandbox.Mount{Source: source, Target: target, ReadOnly: true})
	}
	return mounts
}

// repository takes the tag away.
func repository(name string) string {
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		return name[:at]
	}
	return name
}

// digestOf covers the names, modes and contents of all files below dir.
func digestOf(dir string) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q %o %d\n", strings.TrimPrefix(path, dir), info.Mode(), info.Size())
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(hash, f)
		return err
	})
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), err
}
