package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// conditions are those under which something was measured.
type conditions struct {
	Machine string  `json:"machine"`
	Cores   int     `json:"cores"`
	Load    string  `json:"load_average_at_the_start"`
	When    string  `json:"when"`
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds_a_round"`
}

// conditionsNow are those of a run that begins, of so many rounds, each measurement of which takes round.
func conditionsNow(rounds int, round time.Duration) conditions {
	return conditions{
		Machine: describeMachine(), Cores: runtime.NumCPU(), Load: loadAverage(), When: time.Now().UTC().Format("2006-01-02 15:04 MST"),
		Rounds: rounds, Seconds: round.Seconds(),
	}
}

// loadAverage says how busy the machine is before anything is measured: on a busy one nothing here is worth much.
func loadAverage() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(raw))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// busy marks a run on a machine that had other work.
func (c conditions) busy() string {
	var before float64
	if _, err := fmt.Sscan(c.Load, &before); err == nil && before <= float64(c.Cores)/2 {
		return ""
	}
	return fmt.Sprintf("\n**This run is no measurement of the mediator alone:** the machine was busy before it began (load average %s on %d cores). CPU a post is higher\nthan alone; latencies and rates, and the ratios of both, are those of the other work. Run it again on a quiet machine.\n", c.Load, c.Cores)
}
