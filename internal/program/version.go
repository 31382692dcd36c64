package program

import (
	"fmt"
	"runtime/debug"
)

// version is set by the release build.
var version = "dev"

func versions() string { return fmt.Sprintf("%s (%s)", version, goVersion()) }

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}
