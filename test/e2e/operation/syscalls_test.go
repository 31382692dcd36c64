package operation

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/strace"
)

// Bounds on the system calls of mediator dev: all of them in a second at rest, and by process for a post on a kept
// connection, with what the post causes later but without those of Go's scheduler. A busy machine makes more calls than
// a quiet one, and delivers receipts in smaller batches: at a load of 23, these are half used.
var (
	callsAtRest  = 60
	callsPerPost = map[string]int{"serve": 180, "trigger": 35, "control": 16, "reputation": 40, "dev": 8}
)

// scheduler are the system calls of Go's scheduler and allocator: a busy machine changes their number.
var scheduler = []string{"clone", "epoll_pwait", "futex", "getpid", "gettid", "madvise", "mmap", "munmap", "nanosleep",
	"restart_syscall", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "sigaltstack", "tgkill"}

// TestSyscalls counts the system calls of mediator dev. Unlike times, counts hardly depend on how busy a machine is.
func TestSyscalls(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	answer := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusCreated)
	})
	r := kit.PrepareRig(t, kit.Plain, kit.Serve(answer, `
transparencyLog: {origin: mediator-dev, key: log-key}
actions:
  - name: post
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
`+kit.Upstream), kit.ManyPosts, func(file string) string { return strings.Replace(file, "@every 1s", "@every 1h", 1) })
	dev := exec.Command(kit.Program(t), "dev", "--dir", r.Dir)
	dev.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := dev.StdoutPipe()
	check.Must(t, err)
	said, err := dev.StderrPipe()
	check.Must(t, errors.Join(err, dev.Start()))
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		_ = dev.Wait()
	})
	if lines := bufio.NewScanner(said); !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready") {
		t.Fatalf("the deployment does not start: %s", lines.Text())
	}
	shown := make(chan struct{}, 1<<10)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			shown <- struct{}{}
		}
	}()
	processes := map[string]int{"dev": dev.Process.Pid}
	children(processes, dev.Process.Pid)
	children(processes, processes["serve"])

	const seconds = 30
	atRest := count(t, processes, func() { time.Sleep(seconds * time.Second) })
	a := r.OpenAgent(t)
	post := func() {
		if got := a.Call(http.MethodPost, "/posts", `{"a":1}`); got.Status != http.StatusCreated {
			t.Fatalf("a post gets %+v", got)
		}
		<-shown
	}
	post() // opens connections
	const posts = 50
	atPosts := count(t, processes, func() {
		for range posts {
			post()
		}
		time.Sleep(2 * time.Second) // receipts go to the node
	})

	t.Log("process     a second at rest   per post   without the scheduler's")
	all := 0
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		rest, post := atRest[name], atPosts[name]
		t.Logf("%-10s %17.1f %10.1f %25.1f", name, float64(rest.all)/seconds, float64(post.all)/posts,
			float64(post.work)/posts)
		if most, ok := callsPerPost[name]; ok && post.work > most*posts {
			t.Errorf("%s makes more than %d system calls per post", name, most)
		}
		all += rest.all
	}
	if t.Logf("all        %17.1f", float64(all)/seconds); all > callsAtRest*seconds {
		t.Errorf("at rest they make more than %d system calls a second", callsAtRest)
	}
}

// calls are numbers of system calls. work leaves out those of the scheduler.
type calls struct{ all, work int }

// children adds the children of a process, by their commands.
func children(processes map[string]int, of int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	for _, task := range tasks {
		raw, _ := os.ReadFile(task) // a thread may have ended
		for child := range strings.FieldsSeq(string(raw)) {
			args, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if words := bytes.Split(args, []byte{0}); len(words) > 1 {
				processes[string(words[1])], _ = strconv.Atoi(child)
			}
		}
	}
}

// count returns how many system calls processes make while do runs.
func count(t *testing.T, processes map[string]int, do func()) map[string]calls {
	t.Helper()
	kit.Need(t, "strace")
	tables, err := strace.Count(t.Context(), slices.Collect(maps.Values(processes)), do)
	check.Must(t, err)
	made := make(map[string]calls)
	for name, pid := range processes {
		var of calls
		for call, n := range tables[pid] {
			if of.all += n; !slices.Contains(scheduler, call) {
				of.work += n
			}
		}
		made[name] = of
		if kit.Long() {
			t.Logf("%s: %v", name, tables[pid])
		}
	}
	return made
}
