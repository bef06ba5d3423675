package main

import (
	"fmt"
	"os"
	"time"
)

// heartbeat is how often a long step says that it is alive.
const heartbeat = 20 * time.Second

// during says what begins, with a note, runs it, and says now and then that it still runs.
func during(what, note string, work func() error) error {
	say("%s%s ...", what, note)
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			say("  still %s (%s)", what, time.Since(start).Round(time.Second))
		}
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
