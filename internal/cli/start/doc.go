// Package start has the commands that start an agent, a development stack or the demo: run, dev and demo.
package start
