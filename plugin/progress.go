package plugin

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// quiet is how long nothing is told, and how often something is.
const quiet = time.Second

// progress tells what is being read, once that takes longer than a second, whether anything arrives or not: on a terminal in one line that
// changes.
type progress struct {
	clock      clock.WithTicker
	isTerminal bool

	mu   sync.Mutex
	to   io.Writer
	what string
	n    int
	told bool
	// stop ends the telling, and ended says that it has ended. They are nil while nothing is read.
	stop, ended chan struct{}
}

func newProgress(to io.Writer, c clock.WithTicker) *progress {
	return &progress{to: to, clock: c, isTerminal: isTerminal(to)}
}

// begin says what is read from now on, until end.
func (p *progress) begin(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.n = what, 0
	if p.stop == nil {
		p.stop, p.ended = make(chan struct{}), make(chan struct{})
		go p.run(p.clock.NewTicker(quiet), p.stop, p.ended)
	}
}

// count says that one more was read.
func (p *progress) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
}

func (p *progress) run(ticker clock.Ticker, stop, ended chan struct{}) {
	defer close(ended)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C():
			p.tell()
		}
	}
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("reading %s: %d so far", p.what, p.n)
	if p.isTerminal {
		fmt.Fprintf(p.to, "\r\x1b[K%s", text)
		p.told = true
		return
	}
	fmt.Fprintln(p.to, text)
}

// end clears the line. Nothing is told any more.
func (p *progress) end() {
	if p.stop == nil {
		return
	}
	close(p.stop)
	<-p.ended
	p.stop, p.ended = nil, nil
	if p.told {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.told = false
	}
}
