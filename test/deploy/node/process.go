package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/actionproof/mediator/test/deploy/node/sandbox"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// process is a container that runs: the first process of its own process namespace, with which all others end.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended and code is set
	code int           // as a shell tells it: 128 and the signal's number for one that was killed
}

// startProcess starts a container. dir is an empty folder of its own; output goes to log.
func (n *Node) startProcess(spec sandbox.Spec, network netns.NsHandle, dir string, log *os.File) (*process, error) {
	spec.Scratch = filepath.Join(dir, "scratch")
	if err := os.MkdirAll(spec.Scratch, 0o700); err != nil {
		return nil, err
	}
	cmd, status, err := n.command(spec, filepath.Join(dir, "spec.json"))
	if err != nil {
		return nil, err
	}
	defer status.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true, // enter sets the signal for the parent's death: Go's Pdeathsig does not look across namespaces
	}
	err = inNetwork(network, cmd.Start)
	closeAll(cmd.ExtraFiles)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go p.wait()
	// The other end is closed by a successful exec.
	message, err := io.ReadAll(io.LimitReader(status, 4<<10))
	if err != nil || len(message) > 0 {
		<-p.done
		return nil, errors.Join(err, errors.New(string(message)))
	}
	return p, nil
}

// runProcess runs one more command in a container until it ends, and returns what it printed, or an error with it.
func (n *Node) runProcess(p *process, network netns.NsHandle, spec sandbox.Spec, path string,
	stop <-chan struct{}) (string, error) {
	spec.Join = true
	cmd, status, err := n.command(spec, path)
	if err != nil {
		return "", err
	}
	defer status.Close()
	defer os.Remove(path)
	namespaces := fmt.Sprintf("/proc/%d/ns/", p.cmd.Process.Pid)
	mounts, err := os.Open(namespaces + "mnt")
	if err != nil {
		closeAll(cmd.ExtraFiles)
		return "", err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, mounts)
	defer closeAll(cmd.ExtraFiles)
	pids, err := os.Open(namespaces + "pid")
	if err != nil {
		return "", err
	}
	defer pids.Close()

	output, err := os.CreateTemp(filepath.Dir(path), "output")
	if err != nil {
		return "", err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = inNetwork(network, func() error {
		if err := unix.Setns(int(pids.Fd()), unix.CLONE_NEWPID); err != nil {
			return err
		}
		return cmd.Start()
	})
	if err != nil {
		return "", err
	}
	closeAll(cmd.ExtraFiles)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-stop:
		_ = cmd.Process.Kill()
		<-ended
		err = errors.New("timed out")
	}
	message, _ := io.ReadAll(io.LimitReader(status, 4<<10))
	printed, _ := os.ReadFile(output.Name())
	printed = append(printed, message...)
	if len(printed) > 4<<10 {
		printed = printed[:4<<10]
	}
	return string(printed), err
}

// command is the helper with a Spec in a file and, as descriptor 3, the end of a pipe for what fails.
func (n *Node) command(spec sandbox.Spec, path string) (*exec.Cmd, *os.File, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return nil, nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(n.options.Enter, path)
	cmd.ExtraFiles = []*os.File{write}
	cmd.Env = []string{}
	return cmd, read, nil
}

func (p *process) wait() {
	_ = p.cmd.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.code = 128 + int(status.Signal())
	} else {
		p.code = p.cmd.ProcessState.ExitCode()
	}
	close(p.done)
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
