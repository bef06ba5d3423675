// Package httpserver serves ports that every Pod of a cluster reaches: with a bound on connections, of which clients have their shares.
package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Listen listens on an address (host:port), over TLS where secure is not nil. At most so many connections are open at a time: one more
// closes one of the client, by its IP address, that has the most: the oldest on which nothing is being answered, or else the oldest. So who
// opens very many closes its own, and takes memory from nobody: a connection costs 65 KiB before anybody has said who it is, and with a
// header of many short lines 200. Who shares an address, as behind a node that masquerades, shares its connections.
func Listen(address string, secure *tls.Config, most int) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	listener = &bounded{Listener: listener, most: most, open: map[netip.Addr][]*connection{}}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	return listener, nil
}

// bounded is a listener that has only so many connections open.
type bounded struct {
	net.Listener
	most int

	mu sync.Mutex
	// open are the open connections of each client, as they came. There are count of them, and came is how many there ever were.
	open        map[netip.Addr][]*connection
	count, came int
}

// connection is one that takes itself off the list when it is closed.
type connection struct {
	net.Conn
	of     *bounded
	client netip.Addr
	// nth is how many had come when this one did.
	nth    int
	closed sync.Once
	// busy says that a request is being answered, and ctx ends when the connection is closed.
	busy atomic.Bool
	ctx  context.Context
	end  context.CancelFunc
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, of: b}
	c.ctx, c.end = context.WithCancel(context.Background())
	if tcp, is := accepted.RemoteAddr().(*net.TCPAddr); is {
		c.client = tcp.AddrPort().Addr().Unmap()
	}
	if tooMany := b.add(c); tooMany != nil {
		_ = tooMany.Close() // nobody waits for what is lost with it
	}
	return c, nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.closed.Do(func() {
		c.of.remove(c)
		c.end()
	})
	return c.Conn.Close()
}

// add puts a connection on the list, and returns the one that is to be closed for it, nil for none.
func (b *bounded) add(c *connection) *connection {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	b.came++
	c.nth = b.came
	b.open[c.client] = append(b.open[c.client], c)
	if b.count <= b.most {
		return nil
	}
	var longest []*connection
	for _, those := range b.open {
		// Among equals the one that has been there the longest goes: who comes is at least heard.
		if len(those) > len(longest) || len(those) == len(longest) && those[0].nth < longest[0].nth {
			longest = those
		}
	}
	atRest := slices.IndexFunc(longest, func(c *connection) bool { return !c.busy.Load() })
	return longest[max(atRest, 0)]
}

func (b *bounded) remove(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count--
	those := b.open[c.client]
	i := slices.Index(those, c)
	if those = slices.Delete(those, i, i+1); len(those) == 0 {
		delete(b.open, c.client)
		return
	}
	b.open[c.client] = those
}
