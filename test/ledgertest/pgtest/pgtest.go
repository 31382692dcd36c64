// Package pgtest runs a PostgreSQL server of a test's own: a fresh cluster in a temporary folder, reached by a unix
// socket in it, as durable as one in production. It never touches a cluster of the machine.
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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/internal/runas"
	"github.com/actionproof/mediator/test/full"
)

// superuser is the role of the cluster, and the user who runs it when the test is root: PostgreSQL refuses to run as
// root.
const superuser = "postgres"

// Server is one running cluster. Its methods that take a test end it when they fail.
type Server struct {
	bin, dir  string
	user      *syscall.Credential // who runs it; nil where this process's user does
	settings  []string
	process   *exec.Cmd
	databases atomic.Int32
}

// Start makes a cluster and runs it until the test ends. Settings are further ones of the server, as name=value.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	full.Only(t, "PostgreSQL")
	s, err := Launch(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Launch is Start outside of a test: the server runs until Close, and no longer than this process.
func Launch(settings ...string) (_ *Server, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, errors.New("there is no PostgreSQL on this machine: run make setup")
	}
	// Not a test's own folder: its parents are closed to other users, and a socket's path must be short.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: filepath.Dir(found[len(found)-1]), dir: dir, settings: settings}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.user, err = runas.Credential(superuser); err != nil {
		return nil, fmt.Errorf("%w: run make setup", err)
	}
	if s.user != nil {
		if err := os.Chown(dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // clients have to enter it
		return nil, err
	}
	initdb := s.command("initdb", "--pgdata="+s.data(), "--username="+superuser, "--auth=trust", "--encoding=UTF8",
		"--locale=C.UTF-8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, s.restart()
}

var shared struct {
	sync.Mutex
	server *Server
}

// Main is a TestMain. It ends the server that [Database] has started.
func Main(m *testing.M) {
	status := m.Run()
	if shared.server != nil {
		_ = shared.server.Close() // it ends with this process anyway
	}
	os.Exit(status)
}

// Database makes an empty database in the one server of a package whose TestMain is [Main]. A test that ends its server
// starts its own.
func Database(t testing.TB) (dsn string) {
	t.Helper()
	full.Only(t, "PostgreSQL")
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := Launch("max_connections=500")
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	return shared.server.Database(t)
}

// Database makes an empty database and returns how to connect to it.
func (s *Server) Database(t testing.TB) (dsn string) {
	t.Helper()
	dsn, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// Create is Database outside of a test.
func (s *Server) Create() (dsn string, err error) { return s.create("template1") }

// Copy makes a copy of a database, to which there must be no connection.
func (s *Server) Copy(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err == nil {
		dsn, err = s.create(strings.TrimPrefix(u.Path, "/"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

func (s *Server) create(template string) (dsn string, err error) {
	name := "test" + strconv.Itoa(int(s.databases.Add(1)))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.dsn(superuser))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template)
	return s.dsn(name), err
}

// PID returns the process that all others of the server are children of.
func (s *Server) PID() int { return s.process.Process.Pid }

func (s *Server) dsn(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.dir}, "user": {superuser}}.Encode()
}

// Kill ends all processes of the server at once, like a power cut.
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
	if err := s.restart(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) restart() error {
	var said string
	for range 100 { // it refuses to start while a process of the killed server still has its memory
		var ok bool
		var err error
		if said, ok, err = s.start(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("PostgreSQL does not start: %s", said)
}

// start runs the server and waits until it says that it is ready, or has ended; said is its log until then.
func (s *Server) start() (said string, ok bool, err error) {
	args := []string{"-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + s.dir}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	c := s.command("postgres", args...)
	r, w, err := os.Pipe()
	if err != nil {
		return "", false, err
	}
	c.Stderr = w
	err = c.Start()
	w.Close()
	if err != nil {
		r.Close()
		return "", false, err
	}
	var log strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "ready to accept connections") {
			s.process = c
			go func() { _, _ = io.Copy(io.Discard, r); r.Close() }() // until the server has ended
			return log.String(), true, nil
		}
	}
	r.Close()
	_ = c.Wait() // what it said tells more
	return log.String(), false, nil
}

// Close stops the server and removes its cluster.
func (s *Server) Close() error {
	var err error
	if s.process != nil {
		err = s.process.Process.Signal(syscall.SIGQUIT) // ends its processes too, without a checkpoint
		_ = s.process.Wait()
		s.process = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	// It ends with the test's process, however that ends. SIGQUIT is PostgreSQL's immediate shutdown.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Pdeathsig: syscall.SIGQUIT}
	return c
}
