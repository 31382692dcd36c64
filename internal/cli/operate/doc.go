// Package operate has the commands for running processes and their files: doctor, reload, guard and config.
package operate
