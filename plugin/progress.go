package plugin

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// quiet is how long nothing is told, and how often something is.
const quiet = time.Second

// progress tells what is being read, once that takes longer than a second: on a terminal in one line that changes.
type progress struct {
	to         io.Writer
	clock      clock.PassiveClock
	last       time.Time
	what       string
	n          int
	isTerminal bool
	told       bool
}

func newProgress(to io.Writer, c clock.PassiveClock) *progress {
	return &progress{to: to, clock: c, last: c.Now(), isTerminal: isTerminal(to)}
}

// begin says what is read from now on.
func (p *progress) begin(what string) {
	p.what, p.n = what, 0
	p.tell()
}

// count says that one more was read.
func (p *progress) count() {
	p.n++
	p.tell()
}

func (p *progress) tell() {
	now := p.clock.Now()
	if now.Sub(p.last) < quiet {
		return
	}
	p.last = now
	text := fmt.Sprintf("reading %s: %d so far", p.what, p.n)
	if p.isTerminal {
		fmt.Fprintf(p.to, "\r\x1b[K%s", text)
		p.told = true
		return
	}
	fmt.Fprintln(p.to, text)
}

// end clears the line.
func (p *progress) end() {
	if p.told {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
