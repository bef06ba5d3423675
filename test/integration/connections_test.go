package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestManyConnections has a client open far more connections than a replica leaves it, to each of its ports, and send headers
// that never end; what is closed is opened again. Meanwhile streams get their ports, metrics are read, and the replica stays ready.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--metrics-secure=true"}, Env: tight}))
	e := w.newEdge("crowd")
	r := w.Replicas[0]
	hoarders := []*hoarder{
		w.hoard(r.Webhook, true, 768),
		w.hoard(r.Metrics, true, 64),
		w.hoard(r.Health, false, 64),
	}
	w.create(namespace("all"))
	for _, c := range hoarders {
		w.eventually("more connections to "+c.address+" than are left open", func() error {
			// What is opened anew is open for as long as a header may take.
			if opened, open := c.opened.Load(), c.open.Load(); opened < int64(c.most*5/4) || open < int64(c.most/2) {
				return fmt.Errorf("%d connections were opened, %d are open", opened, open)
			}
			return nil
		})
	}
	for i := range int32(10) {
		s := sti(fmt.Sprintf("edge-crowd/s-%d", i), of("crowd"), tcp(1000+i))
		e.create(s)
		e.programmed(s)
	}
	w.scrape(r)
	w.ready(r, "+certificate +caches +guard +webhook")
	for _, c := range hoarders {
		c.end()
		w.eventually("connections to "+c.address+" beyond the bound to be closed", func() error {
			if open := c.open.Load(); open > int64(c.most) {
				return fmt.Errorf("%d are open of %d that were opened, want %d at most", open, c.opened.Load(), c.most)
			}
			return nil
		})
	}
	w.keepsBelow(mostMemory)
}

// hoarder is a client that opens connections to a port, and keeps as many as it is let. Its address is that of nobody else.
type hoarder struct {
	address      string
	secure       bool
	most         int
	opened, open atomic.Int64
	ctx          context.Context
	end          context.CancelFunc
}

// hoard starts opening connections to the port of a URL that has so many open at most: a quarter more, and each again that is closed.
func (w *fixture) hoard(url string, secure bool, most int) *hoarder {
	w.t.Helper()
	_, address, _ := strings.Cut(url, "://")
	c := &hoarder{address: address, secure: secure, most: most}
	c.ctx, c.end = context.WithCancel(w.t.Context())
	// Who opens one at a time waits for its turn: the control plane has to run beside it.
	turns, ended := make(chan struct{}, 2), make(chan struct{})
	var members sync.WaitGroup
	for range most * 5 / 4 {
		members.Go(func() { c.join(turns, ended) })
	}
	w.t.Cleanup(func() {
		c.end()
		close(ended)
		members.Wait()
	})
	return c
}

// join has a connection open until all is ended, with a header that does not end; and another one when it is closed.
func (c *hoarder) join(turns chan struct{}, ended <-chan struct{}) {
	for c.ctx.Err() == nil {
		turns <- struct{}{}
		conn, err := c.dial()
		<-turns
		if err != nil {
			continue
		}
		c.opened.Add(1)
		c.open.Add(1)
		closed := make(chan struct{})
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // there is no answer: it returns when either side has closed
			close(closed)
		}()
		select {
		case <-closed:
		case <-ended:
		}
		_ = conn.Close()
		<-closed
		c.open.Add(-1)
	}
}

// endless is a header of 6,000 bytes that goes on. Of many short lines the server keeps many times what they are on the network.
var endless = func() string {
	header := &strings.Builder{}
	header.WriteString("GET /metrics HTTP/1.1\r\nHost: replica\r\n")
	for i := 0; header.Len() < 6000; i++ {
		fmt.Fprintf(header, "%x:\r\n", i)
	}
	return header.String()
}()

// dial opens a connection and begins a request.
func (c *hoarder) dial() (net.Conn, error) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := from.DialContext(c.ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	if c.secure {
		secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := secured.HandshakeContext(c.ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secured
	}
	if _, err := io.WriteString(conn, endless); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
