// Package launch implements mediator run: it opens a session, runs an agent in it, and closes the session. Usually the
// agent has its own namespaces (package isolate). Where none can be made, it shares those of its launcher (shared.go),
// which then collects and finally kills the agent's processes (processes.go).
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/isolate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
)

// DefaultUID is the user of an agent without namespaces that root starts, if neither the command line nor the
// configuration names one.
const DefaultUID = 65534

// Values of Options.UID that are not user ids.
const (
	SameUser = -1 // the user of this process
	OwnUser  = -2 // an unused user, if root starts the agent and namespaces can be made
)

// Options name the agent to start, and its event.
type Options struct {
	Admin            string // the sidecar's admin endpoint, unix:PATH
	Event            string // empty: the next waiting event
	Wait             bool   // wait until there is an event
	Loop             bool   // run the agent for one event after the other, until the context ends
	Learn            bool   // in a learning session, which has no event
	UID              int    // a user id but root's, SameUser or OwnUser
	Bounds           isolate.Bounds
	RequireIsolation bool     // start no agent that is not isolated
	Env              []string // more variables of the agent: NAME=VALUE, or NAME for the value in this process
	Args             []string
	Stdout, Stderr   io.Writer
}

// ExitStatus is the status of an agent that failed: its own, or 128 plus the number of the signal that ended it.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// place is where an agent runs: its own namespaces, or those of this process.
type place interface {
	run(s admin.Session, env []string) error
	Close() // if it has not run
}

// Run runs the agent in a session. An agent's failure is an [ExitStatus]; with Loop, the next event runs anyway.
func Run(ctx context.Context, o Options) error {
	o.Wait = o.Wait || o.Loop
	for {
		err := o.once(ctx)
		var status ExitStatus
		switch {
		case problem.DetailsOf(err).Code == "event_none" && ctx.Err() == nil:
			if !o.Wait {
				return fmt.Errorf("%w: deliver one (mediator events send) or wait (--wait)", err)
			}
		case !o.Loop:
			return err
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &status):
			o.warn("the agent failed: %v", status)
		case err != nil:
			return err
		}
	}
}

func (o Options) once(ctx context.Context) error {
	if err := errors.Join(o.checkUser(), isolate.CloseOnExec()); err != nil {
		return notStarted(err)
	}
	program, err := find(o.Args[0])
	if err != nil {
		return notStarted(err)
	}
	env, err := named(o.Env)
	if err != nil {
		return notStarted(err)
	}
	ask := admin.SessionRequest{Event: o.Event, Wait: o.Wait, Learning: o.Learn, Launcher: true}
	where, listener, err := o.place(ctx, program, &ask)
	if err != nil {
		return err
	}
	var s admin.Session
	err = admin.OpenSession(ctx, o.Admin, ask, listener, &s)
	_ = listener.Close() // the sidecar alone has it, so it ends with the session; nil if there is none
	if err != nil {
		where.Close()
		return fmt.Errorf("open a session: %w", err)
	}
	defer o.end(ctx, s.Session)
	return status(where.run(s, env))
}

// end closes the session, and then tells what was refused: reading that may take all the time.
func (o Options) end(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := admin.Call(ctx, o.Admin, http.MethodDelete, "/v1/sessions/"+url.PathEscape(session), nil, nil)
	if err != nil {
		o.warn("end the session: %v", err)
	}
	o.tellRefusals(ctx, session)
}

func (o Options) warn(format string, args ...any) {
	fmt.Fprintf(o.Stderr, "mediator: "+format+"\n", args...)
}

func notStarted(err error) error {
	return fmt.Errorf("the agent cannot be started, and its event still waits: %w", err)
}

// place makes the agent's place. If it has a listener, the sidecar accepts the agent's connections there.
func (o Options) place(ctx context.Context, program string, ask *admin.SessionRequest) (place, *os.File, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, notStarted(err)
	}
	if o.RequireIsolation && !o.users().Own {
		return nil, nil, refusal.New("isolation_unavailable",
			"--require-isolation needs a user of the agent's own, which only root can give; the event still waits")
	}
	made, err := isolate.Start(ctx, isolate.Options{
		Users: o.users(), Program: program, Bounds: o.Bounds, Stdout: o.Stdout, Stderr: o.Stderr,
	})
	o.tellGroups()
	var unfit *isolate.AgentError
	var unavailable *isolate.UnavailableError
	switch {
	case err == nil:
		ask.Init = made.Init
		if !o.users().Own {
			o.warn("the agent shares its user with others; who can reach its run is only declared")
		}
		return isolated{o, made, dir}, made.Listener, nil
	case errors.As(err, &unfit):
		return nil, nil, notStarted(err)
	case o.Learn:
		return nil, nil, refusal.New("isolation_unavailable",
			"a learning session needs an isolated agent, because any other agent could post without the mediator: %v",
			err)
	case o.RequireIsolation, !errors.As(err, &unavailable):
		return nil, nil, refusal.New("isolation_unavailable",
			"the agent cannot be isolated (its event still waits): %v", err)
	}
	o.warn("the agent is not isolated, so who can reach its run is only declared: %v", err)
	return &shared{Options: o, ctx: ctx, program: program, dir: dir}, nil, nil
}

func (o Options) users() isolate.Users {
	switch root := os.Geteuid() == 0; {
	case root && o.UID == OwnUser:
		return isolate.Users{Own: true}
	case o.UID >= 0:
		return isolate.Users{UID: o.UID, GID: o.UID}
	}
	return isolate.Users{UID: os.Geteuid(), GID: os.Getegid()}
}

// checkUser refuses a user that an agent cannot or must not have.
func (o Options) checkUser() error {
	own := os.Geteuid()
	switch {
	case o.UID == 0, o.UID == SameUser && own == 0:
		return errors.New(
			"an agent that runs as root reaches the mediator's keys and every file: leave --uid out for a user " +
				"of its own, or name another one")
	case o.UID > 0 && own != 0 && o.UID != own:
		return fmt.Errorf("only root can start an agent as user %d: leave --uid out to start it as this user", o.UID)
	}
	return nil
}

// tellGroups warns of groups that the agent keeps. Only root can leave groups.
func (o Options) tellGroups() {
	groups, err := os.Getgroups()
	if err != nil || os.Geteuid() == 0 {
		return
	}
	groups = slices.DeleteFunc(groups, func(g int) bool { return g == os.Getegid() })
	if len(groups) > 0 {
		o.warn("the agent keeps this user's groups %v, and reaches what they reach; start it as root, or as a user "+
			"without them", groups)
	}
}

type isolated struct {
	Options
	*isolate.Place
	dir string
}

func (p isolated) run(s admin.Session, env []string) error {
	own := []string{"HOME=" + isolate.Home, "TMPDIR=" + isolate.Temp}
	proxyURL := s.ProxyURL
	if p.Transparent {
		proxyURL = ""
	}
	return p.Run(isolate.Agent{Args: p.Args, Env: environment(own, env, proxyURL, isolate.CAFile), CA: s.CA,
		GitConfig: gitConfig(p.dir)})
}

func status(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("run the agent: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return ExitStatus(128 + int(status.Signal())) // as shells report a signal
	}
	return ExitStatus(exit.ExitCode())
}
