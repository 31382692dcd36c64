package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// file is a file of a volume that the node writes.
type file struct {
	data []byte
	mode os.FileMode
	uid  int // -1: root
}

// setUpVolumes makes each volume, or says which ones lack what. It is repeated until it succeeds. As with a kubelet, a
// certificate that is not signed yet holds up nothing else.
func (r *podRunner) setUpVolumes(ctx context.Context) (lacks error) {
	for i := range r.pod.Spec.Volumes {
		if err := r.setUpVolume(ctx, &r.pod.Spec.Volumes[i]); err != nil {
			lacks = errors.Join(lacks, fmt.Errorf("volume %s: %w", r.pod.Spec.Volumes[i].Name, err))
		}
	}
	return lacks
}

func (r *podRunner) setUpVolume(ctx context.Context, v *corev1.Volume) error {
	switch {
	case v.EmptyDir != nil:
		return r.setUpEmptyDir(v)
	case v.HostPath != nil:
		r.volumePaths[v.Name] = v.HostPath.Path
		return nil
	case v.PersistentVolumeClaim != nil:
		return r.setUpClaim(ctx, v)
	}
	return r.writeVolume(ctx, v)
}

func (r *podRunner) setUpEmptyDir(v *corev1.Volume) error {
	if _, made := r.volumePaths[v.Name]; made {
		return nil
	}
	dir := filepath.Join(r.dir, "volumes", v.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.EmptyDir.Medium == corev1.StorageMediumMemory {
		options := "mode=0777"
		if v.EmptyDir.SizeLimit != nil {
			options += fmt.Sprintf(",size=%d", v.EmptyDir.SizeLimit.Value())
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return err
		}
		r.mounted = append(r.mounted, dir)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	r.volumePaths[v.Name] = dir
	return r.shareWithGroup(dir)
}

// setUpClaim shows the folder of a hostPath PersistentVolume, which is the only kind that the node carries out.
func (r *podRunner) setUpClaim(ctx context.Context, v *corev1.Volume) error {
	core := r.node.client.CoreV1()
	claim, err := core.PersistentVolumeClaims(r.pod.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName,
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	volume, err := core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if volume.Spec.HostPath == nil {
		return fmt.Errorf("PersistentVolume %s is not of the kind hostPath", volume.Name)
	}
	r.volumePaths[v.Name] = volume.Spec.HostPath.Path
	return r.shareWithGroup(volume.Spec.HostPath.Path)
}

// shareWithGroup gives a folder to the pod's fsGroup.
func (r *podRunner) shareWithGroup(dir string) error {
	group := r.fsGroup()
	if group < 0 {
		return nil
	}
	if err := os.Lchown(dir, -1, group); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode()|os.ModeSetgid|0o770)
}

func (r *podRunner) fsGroup() int {
	if s := r.pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return -1
}

// commonUser is the user of all of the pod's containers, or -1: the owner of its credentials.
func (r *podRunner) commonUser() int {
	user := int64(-1)
	for i, c := range append(r.pod.Spec.InitContainers[:len(r.pod.Spec.InitContainers):len(r.pod.Spec.InitContainers)],
		r.pod.Spec.Containers...) {
		uid := runAsUser(r.pod, &c)
		if uid == nil || i > 0 && *uid != user {
			return -1
		}
		user = *uid
	}
	return int(user)
}

func runAsUser(pod *corev1.Pod, c *corev1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.RunAsUser
	}
	return nil
}

// writeVolume writes a volume that consists of files, if they differ from those of last time.
func (r *podRunner) writeVolume(ctx context.Context, v *corev1.Volume) error {
	files, err := r.files(ctx, v)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "volumes", v.Name)
	if _, written := r.volumePaths[v.Name]; written && sameFiles(r.written[v.Name], files) {
		return nil
	}
	if err := writeAtomically(dir, files, r.fsGroup()); err != nil {
		return err
	}
	r.volumePaths[v.Name], r.written[v.Name] = dir, files
	return nil
}

func sameFiles(a, b map[string]file) bool {
	if len(a) != len(b) {
		return false
	}
	for name, f := range a {
		other, ok := b[name]
		if !ok || f.mode != other.mode || !bytes.Equal(f.data, other.data) {
			return false
		}
	}
	return true
}

// writeAtomically writes all files anew into a hidden folder and then moves the link ..data, through which the names in
// dir lead, to it: a reader sees the old files or the new ones. It is how a kubelet does it, and what programs watch.
func writeAtomically(dir string, files map[string]file, group int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..files")
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	for name, f := range files {
		path := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := f.mode
		if group >= 0 {
			mode |= 0o440
		}
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			return err
		}
		if err := os.Lchown(path, f.uid, group); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	link := filepath.Join(dir, "..data_tmp")
	_ = os.Remove(link)
	if err := os.Symlink(filepath.Base(fresh), link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	if err := linkNames(dir, fresh); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// linkNames makes a link for each first part of a file's path, and removes those of files that are gone.
func linkNames(dir, fresh string) error {
	wanted, err := os.ReadDir(fresh)
	if err != nil {
		return err
	}
	for _, entry := range wanted {
		path := filepath.Join(dir, entry.Name())
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join("..data", entry.Name()), path); err != nil {
			return err
		}
	}
	present, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range present {
		if _, err := os.Stat(filepath.Join(dir, entry.Name())); err != nil {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}

// removeVolumes forgets what the pod had.
func (r *podRunner) removeVolumes() {
	for _, dir := range r.mounted {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
	_ = os.RemoveAll(filepath.Join(r.dir, "volumes"))
}
