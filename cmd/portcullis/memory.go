package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage may pile up, in percent of the memory in use, before it is collected. Most of what is
// in use are caches: Go's own 100 would double them, to save CPU time of which little is used.
const garbagePercent = 50

// economize makes garbage be collected earlier, unless GOGC in the environment says when.
func economize() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
