package endpoint_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/test/check"
)

func TestCheckPlaces(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer taken.Close()
	dir := t.TempDir()
	socket := filepath.Join(dir, "admin.sock")
	listening, err := net.Listen("unix", socket)
	check.Must(t, err)
	defer listening.Close()
	file, crowded := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "crowded.sock")
	check.Must(t, os.WriteFile(file, []byte("records"), 0o600))
	crowd(t, crowded)
	for _, tt := range []struct {
		name  string
		place fields.Place
		says  string
	}{
		{"a port that is taken", fields.Place{Key: "listen", Address: taken.Addr().String()},
			"listen in a.yaml: another process listens on " + taken.Addr().String() +
				": end it, or write another address"},
		{"an address of another machine", fields.Place{Key: "listen", Address: "192.0.2.1:0"},
			"listen in a.yaml: this machine does not have the address 192.0.2.1:0: write one that it has"},
		{"a socket that is taken", fields.Place{Key: "admin", Unix: socket},
			"admin in a.yaml: another process listens on " + socket + ": end it, or name another socket"},
		{"a socket whose process accepts nothing now", fields.Place{Key: "admin", Unix: crowded},
			"admin in a.yaml: another process listens on " + crowded + ": end it, or name another socket"},
		{"a file in the socket's place", fields.Place{Key: "admin", Unix: file},
			"admin in a.yaml: " + file + " exists but is not a socket: move it away, or name another socket"},
		{"a socket's folder that is not there", fields.Place{Key: "admin", Unix: filepath.Join(dir, "run", "x")},
			"admin in a.yaml: the folder of the socket " + filepath.Join(dir, "run", "x") +
				" cannot be used (no such file or directory): make it, or name another"},
		{"no address", fields.Place{Key: "listen", Address: "127.0.0.1"},
			"listen in a.yaml: listen tcp: address 127.0.0.1: missing port"},
		{"what is free", fields.Place{Key: "listen", Address: "127.0.0.1:0"}, ""},
		{"nothing", fields.Place{Key: "listen"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := endpoint.CheckPlaces("a.yaml", fields.Place{Key: "other", Address: "127.0.0.1:0"}, tt.place)
			if tt.says == "" {
				check.Must(t, err)
				return
			}
			check.WantCode(t, err, "listen_failed")
			if !strings.HasPrefix(err.Error(), tt.says) {
				t.Errorf("it says %q, want %q", err, tt.says)
			}
			if _, err := os.Stat(tt.place.Unix); err != nil {
				return
			}
			if l, err := endpoint.Listen(config.Endpoint{Unix: tt.place.Unix}, nil, zap.NewNop()); err == nil {
				l.Close()
				t.Error("a process listens there all the same")
			}
			if _, err := os.Stat(tt.place.Unix); err != nil {
				t.Errorf("what stood there is gone: %v", err)
			}
		})
	}
}

// crowd makes a socket on which a process listens that accepts no connection, and as many connections as can wait.
func crowd(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check.Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	check.Must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	check.Must(t, unix.Listen(fd, 0))
	for {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}
