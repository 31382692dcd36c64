package observe

// NewWatchOn makes a Watcher on another proc file system.
var NewWatchOn = newWatch

// ReadsTerminal asks whether a thread's standard input is a terminal.
func (l *LookerClient) ReadsTerminal(tid int) (bool, error) {
	_, is, err := (&processes{path: "/proc", looker: l}).terminal(tid)
	return is, err
}
