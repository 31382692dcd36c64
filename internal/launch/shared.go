package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/actionproof/mediator/internal/admin"
)

type shared struct {
	Options
	ctx          context.Context //nolint:containedctx // of the one run
	program, dir string
}

func (p *shared) Close() {}

func (p *shared) run(s admin.Session, env []string) error {
	uid := p.user(s)
	if uid < 0 {
		p.warn("the agent runs as this user and can reach what this user can, the mediator's sockets included; start " +
			"it as root, or as a user of its own")
	}
	home, err := os.MkdirTemp("", "mediator-run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	git := filepath.Join(home, ".gitconfig")
	if err := os.WriteFile(git, gitConfig(p.dir), 0o600); err != nil {
		return err
	}
	if uid >= 0 {
		if err := errors.Join(os.Chown(git, uid, uid), os.Chown(home, uid, uid)); err != nil {
			return err
		}
	}
	run := func(dir string) error {
		cmd := command(p.ctx, p.program, p.Args, uid)
		cmd.Dir, cmd.Env = dir, environment([]string{"HOME=" + home, "TMPDIR=" + home}, env, s.ProxyURL, s.CAFile)
		return runProcess(cmd, p.Stdout, p.Stderr)
	}
	if err = run(p.dir); uid < 0 || !errors.Is(err, os.ErrPermission) {
		return err
	}
	p.warn("the agent's user cannot enter %s; the agent starts in its own %s", p.dir, home)
	return run(home)
}

func (p *shared) user(s admin.Session) int {
	switch {
	case p.UID != OwnUser:
		return p.UID
	case os.Geteuid() != 0:
		return SameUser
	case s.Agent != nil && *s.Agent != 0:
		return int(*s.Agent)
	}
	return DefaultUID
}

// command makes the command of an agent: in its own process session, without a terminal, with empty standard input, as
// the user uid and only in the group of the same number; -1 keeps user and groups.
func command(ctx context.Context, program string, args []string, uid int) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // running the operator's command is what run is for
	cmd.Args = args
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
