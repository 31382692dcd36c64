package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/test/deploy/node/sandbox"
	corev1 "k8s.io/api/core/v1"
)

// sandbox makes of a container's spec what its process gets. reason is the one that a kubelet gives for the error.
func (r *podRunner) sandbox(ctx context.Context, image Image, c *container) (s sandbox.Spec, reason string, err error) {
	s = sandbox.Spec{Root: image.Dir, Binds: image.binds(), Hostname: r.hostname(), Dir: image.WorkingDir}
	if s.Env, err = r.environment(ctx, image, &c.spec); err == nil {
		err = r.rights(&s, image, &c.spec)
	}
	if err != nil {
		return s, "CreateContainerConfigError", err
	}
	if c.spec.WorkingDir != "" {
		s.Dir = c.spec.WorkingDir
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
	s.Args = command(image, &c.spec, s.Env)
	if len(s.Args) == 0 {
		return s, "CreateContainerError", errors.New("no command specified")
	}
	if s.Mounts, err = r.mounts(c); err != nil {
		return s, "CreateContainerError", err
	}
	return s, "", nil
}

// command is the container's command line: command replaces the image's Entrypoint and Cmd, args its Cmd.
func command(image Image, c *corev1.Container, env []string) []string {
	first, rest := image.Entrypoint, image.Cmd
	if len(c.Command) > 0 {
		first, rest = c.Command, nil
	}
	if len(c.Args) > 0 {
		rest = c.Args
	}
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	var args []string
	for _, arg := range slices.Concat(first, rest) {
		args = append(args, expand(arg, values))
	}
	return args
}

// rights sets the user and what it may do, by the container's security context, the pod's, and the image's user.
func (r *podRunner) rights(s *sandbox.Spec, image Image, c *corev1.Container) error {
	uid, gid, _ := strings.Cut(image.User, ":")
	for _, id := range []struct {
		text   string
		number *uint32
	}{{uid, &s.UID}, {gid, &s.GID}} {
		if id.text == "" {
			continue
		}
		n, err := strconv.ParseUint(id.text, 10, 32)
		if err != nil {
			return fmt.Errorf("image %s: user %q: give numbers", image.Name, image.User)
		}
		*id.number = uint32(n)
	}
	pod, own := r.pod.Spec.SecurityContext, c.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	if user := runAsUser(r.pod, c); user != nil {
		s.UID, s.GID = uint32(*user), 0
	}
	if group := first(own.RunAsGroup, pod.RunAsGroup); group != nil {
		s.GID = uint32(*group)
	}
	if nonRoot := first(own.RunAsNonRoot, pod.RunAsNonRoot); isTrue(nonRoot) && s.UID == 0 {
		return errors.New("container has runAsNonRoot and image will run as root")
	}
	for _, group := range pod.SupplementalGroups {
		s.Groups = append(s.Groups, uint32(group))
	}
	if pod.FSGroup != nil {
		s.Groups = append(s.Groups, uint32(*pod.FSGroup))
	}
	s.ReadOnlyRoot = isTrue(own.ReadOnlyRootFilesystem)
	s.NoNewPrivileges = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	profile := first(own.SeccompProfile, pod.SeccompProfile)
	s.Seccomp = profile != nil && profile.Type == corev1.SeccompProfileTypeRuntimeDefault
	return capabilities(s, own.Capabilities)
}

func capabilities(s *sandbox.Spec, wanted *corev1.Capabilities) error {
	s.Capabilities = sandbox.DefaultCapabilities()
	if wanted == nil {
		return nil
	}
	for _, name := range wanted.Drop {
		s.Capabilities = slices.DeleteFunc(s.Capabilities, func(have string) bool {
			return name == "ALL" || have == plain(name)
		})
	}
	for _, name := range wanted.Add {
		if name == "ALL" {
			return errors.New("to add all capabilities is not carried out")
		}
		s.Capabilities = append(s.Capabilities, plain(name))
	}
	return nil
}

func plain(capability corev1.Capability) string {
	return strings.TrimPrefix(string(capability), "CAP_")
}

func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// mounts are the container's volumes, the outer ones first, and the files that each container has.
func (r *podRunner) mounts(c *container) ([]sandbox.Mount, error) {
	r.volumesMu.Lock()
	defer r.volumesMu.Unlock()
	var mounts []sandbox.Mount
	for _, m := range c.spec.VolumeMounts {
		source := filepath.Join(r.volumePaths[m.Name], m.SubPath)
		if m.SubPath != "" {
			if _, err := os.Stat(source); errors.Is(err, os.ErrNotExist) {
				if err := os.MkdirAll(source, 0o755); err != nil {
					return nil, err
				}
			}
			var err error
			if source, err = filepath.EvalSymlinks(source); err != nil {
				return nil, err
			}
		}
		mounts = append(mounts,
			sandbox.Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly || r.writtenByNode(m.Name)})
	}
	own, err := r.networkFiles()
	if err != nil {
		return nil, err
	}
	files := maps.Clone(own)
	message := r.terminationLog(c)
	if err := os.WriteFile(message, nil, 0o666); err != nil {
		return nil, err
	}
	if err := os.Chmod(message, 0o666); err != nil {
		return nil, err
	}
	files[c.spec.TerminationMessagePath] = message
	for target, source := range files {
		if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Target == target }) {
			mounts = append(mounts, sandbox.Mount{Source: source, Target: target})
		}
	}
	sort.SliceStable(mounts, func(i, j int) bool { return len(mounts[i].Target) < len(mounts[j].Target) })
	return mounts, nil
}

// writtenByNode reports whether a volume's files are the node's, which no container may change.
func (r *podRunner) writtenByNode(volume string) bool {
	_, ok := r.written[volume]
	return ok
}

func (r *podRunner) terminationLog(c *container) string {
	return filepath.Join(r.dir, c.spec.Name+".termination")
}
