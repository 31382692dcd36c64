// Package sandbox says what a container's process gets: its root, mounts, users and rights. The program
// sandbox/enter gives them to the process; package node starts it in new namespaces.
package sandbox

// Spec is one container, or one more command in a container that runs.
type Spec struct {
	// Root is the image's folder. Binds are more folders of the machine that the image consists of. The process sees
	// both under a layer of its own in memory, so it never changes them.
	Root  string
	Binds []Mount

	// Scratch is an empty folder, over which the layer is mounted in the container's own mount namespace.
	Scratch string

	// Mounts are the pod's volumes and files, in order.
	Mounts       []Mount
	ReadOnlyRoot bool

	Hostname string
	Args     []string // looked up in PATH of Env
	Env      []string
	Dir      string // the working folder; made where it is missing

	UID, GID uint32
	Groups   []uint32

	// Capabilities bounds what root may do: names such as NET_ADMIN. Others than root have none.
	Capabilities    []string
	NoNewPrivileges bool
	Seccomp         bool // refuse the system calls that the runtimes' default profiles refuse

	// Join runs Args in the container whose mount namespace is file descriptor 4, and not in one of its own.
	Join bool
}

// Mount shows Source, a file or folder of the machine, at Target in the container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// DefaultCapabilities are what containerd leaves to root.
func DefaultCapabilities() []string {
	return []string{
		"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
		"NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
	}
}
