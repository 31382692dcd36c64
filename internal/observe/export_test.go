package observe

// NewWatchOn makes a Watcher on another proc file system.
var NewWatchOn = newWatch
