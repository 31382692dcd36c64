package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/descriptor"
	"github.com/actionproof/mediator/test/check"
)

func TestDescriptors(t *testing.T) {
	e := config.Endpoint{Unix: filepath.Join(t.TempDir(), "s")}
	l, err := Listen(e, nil, zap.NewNop())
	check.Must(t, err)
	go func() {
		_ = Serve(t.Context(), descriptor.Listener(l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if PeerOf(r).Pid != int32(os.Getpid()) {
				t.Errorf("the peer is %+v", PeerOf(r))
			}
			if r.URL.Path == "/left" {
				return
			}
			body, err := io.ReadAll(r.Body)
			f := DescriptorOf(r)
			if f == nil {
				fmt.Fprintf(w, "%d bytes, no descriptor, %v", len(body), err)
				return
			}
			defer f.Close()
			flags, errFlags := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
			_, errWrite := io.WriteString(f, "x")
			fmt.Fprintf(w, "%d bytes, %v, close on exec %t", len(body), errors.Join(err, errFlags, errWrite),
				flags == unix.FD_CLOEXEC)
		}), Limits{}, time.Minute, zap.NewNop())
	}()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		check.Must(t, err)
		t.Cleanup(func() { r.Close() })
		return r, w
	}
	post := func(file *os.File, path string, size int) string {
		client, base := ClientSending(config.Peer{Unix: e.Unix}, nil, file)
		defer client.CloseIdleConnections()
		resp, err := client.Post(base+path, "text/plain", strings.NewReader(strings.Repeat("b", size)))
		check.Must(t, err)
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body)
		return string(said)
	}
	for _, size := range []int{0, 3, 1 << 20} {
		r, w := pipe()
		if said := post(w, "/", size); said != fmt.Sprintf("%d bytes, <nil>, close on exec true", size) {
			t.Errorf("%d: %s", size, said)
		}
		w.Close()
		if got, err := io.ReadAll(r); string(got) != "x" || err != nil { // ends once all copies are closed
			t.Errorf("%q, %v", got, err)
		}
	}
	if said := post(nil, "/", 3); said != "3 bytes, no descriptor, <nil>" {
		t.Errorf("without a descriptor: %s", said)
	}
	r, w := pipe()
	post(w, "/left", 0)
	w.Close()
	if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
		t.Errorf("a descriptor that nobody takes: %q, %v", got, err)
	}
	// More of them than a request can have, and then no request at all.
	c, err := net.Dial("unix", e.Unix)
	check.Must(t, err)
	r, w = pipe()
	fd := int(w.Fd())
	for range 3 {
		if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte("POST"), unix.UnixRights(fd, fd, fd, fd, fd),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	c.Close()
	if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
		t.Errorf("descriptors without a request: %q, %v", got, err)
	}
}

func TestReloadOverDescriptors(t *testing.T) {
	e := config.Endpoint{Unix: filepath.Join(t.TempDir(), "s")}
	l, err := Listen(e, nil, zap.NewNop())
	check.Must(t, err)
	go func() {
		_ = Serve(t.Context(), descriptor.Listener(l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, FromOwner(r))
		}), Limits{}, time.Minute, zap.NewNop())
	}()
	client, base := Client(config.Peer{Unix: e.Unix}, nil)
	defer client.CloseIdleConnections()
	resp, err := client.Get(base)
	check.Must(t, err)
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); string(said) != "true" || err != nil {
		t.Errorf("%s, %v", said, err)
	}
}
