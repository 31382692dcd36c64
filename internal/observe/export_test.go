package observe

// NewWatchOn makes a Watch on another proc file system.
var NewWatchOn = newWatch
