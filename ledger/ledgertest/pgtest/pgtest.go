// Package pgtest runs a PostgreSQL server of a test's own: a fresh cluster in a temporary folder, reached by a unix socket in it, as
// durable as one in production. It never touches a cluster of the machine.
package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the role of the cluster, and the user who runs it when the test is root: PostgreSQL refuses to run as root.
const superuser = "postgres"

// Server is one running cluster. Its methods end the test when they fail.
type Server struct {
	bin, dir  string
	settings  []string
	process   *exec.Cmd
	databases atomic.Int32
}

// Start makes a cluster and runs it until the test ends. Settings are further ones of the server, as name=value.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatal("there is no PostgreSQL on this machine: run make setup")
	}
	// Not t.TempDir: its parents are closed to other users, and a socket's path must be short.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{bin: filepath.Dir(found[len(found)-1]), dir: dir, settings: settings}
	t.Cleanup(func() { s.stop(t) })
	if id := s.credential(t); id != nil {
		if err := os.Chown(dir, int(id.Uid), int(id.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // whoever connects passes through it, as through a server's own folder of sockets
		t.Fatal(err)
	}
	initdb := s.command(t, "initdb", "--pgdata="+s.data(), "--username="+superuser, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	s.Restart(t)
	return s
}

// Database makes an empty database and returns how to connect to it.
func (s *Server) Database(t testing.TB) (dsn string) {
	t.Helper()
	name := "test" + strconv.Itoa(int(s.databases.Add(1)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.dsn(superuser))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.dsn(name)
}

func (s *Server) dsn(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.dir}, "user": {superuser}}.Encode()
}

// Kill ends the server at once, with every process of it, as a power cut ends it. What it had not made durable is gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	pid := s.process.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	err = errors.Join(err, s.process.Process.Kill())
	for _, child := range strings.Fields(string(children)) {
		if pid, bad := strconv.Atoi(child); bad == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = s.process.Wait() // it was killed
	s.process = nil
}

// Restart starts a server that was killed. It returns once connections are accepted.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	var said string
	for range 100 { // it refuses to start while a process of the killed server still has its memory
		var ok bool
		if said, ok = s.start(t); ok {
			return
		}
	}
	t.Fatalf("PostgreSQL does not start: %s", said)
}

// start runs the server and waits until it says that it is ready, or has ended; said is its log until then.
func (s *Server) start(t testing.TB) (said string, ok bool) {
	t.Helper()
	args := []string{"-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + s.dir}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	c := s.command(t, "postgres", args...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = w
	err = c.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "ready to accept connections") {
			s.process = c
			go func() { _, _ = io.Copy(io.Discard, r); r.Close() }() // until the server has ended
			return log.String(), true
		}
	}
	r.Close()
	_ = c.Wait() // what it said tells more
	return log.String(), false
}

func (s *Server) stop(t testing.TB) {
	t.Helper()
	if s.process != nil {
		if err := s.process.Process.Signal(syscall.SIGQUIT); err != nil { // ends its processes too, without a checkpoint
			t.Error(err)
		}
		_ = s.process.Wait()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Error(err)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	// It ends with the test's process, however that ends. SIGQUIT is PostgreSQL's immediate shutdown.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential(t), Pdeathsig: syscall.SIGQUIT}
	return c
}

// credential is the user who runs the server; nil where the test's own user does.
func (s *Server) credential(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(superuser)
	if err != nil {
		t.Fatalf("%v: run make setup", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, bad := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
