package harness

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Balancer stands where a Service and kube-proxy stand in a cluster: it hands each connection to the next replica. It
// hands every connection it can, so that a replica that has died is found out by the one who connects.
type Balancer struct {
	listener net.Listener
	mu       sync.Mutex
	backends []string
	next     int
	open     map[*net.TCPConn]*link
	fate     func() Fate
	// running ends with the balancer: pieces of answers that are held back are dropped then.
	running context.Context
	end     context.CancelFunc
}

// link is what is on the other side of a connection of the API server.
type link struct {
	backend string
	// over is closed when the connection is.
	over chan struct{}
}

// Fate is what becomes of a piece of a replica's answer on its way to the API server.
type Fate struct {
	// Delay holds the piece back.
	Delay time.Duration
	// Cut drops it and closes the connection: the replica has answered, and the API server does not learn what.
	Cut bool
}

// DisturbAnswers lets fate decide about every piece of every answer of every replica, until it is called again; nil
// ends the disturbance. fate is called from several goroutines at once.
func (h *Harness) DisturbAnswers(fate func() Fate) {
	h.front.mu.Lock()
	defer h.front.mu.Unlock()
	h.front.fate = fate
}

// Reconnect ends all connections of the API server, so that its next requests go to other replicas: with few requests at
// once, it keeps to one connection, and so to one replica. No request should be under way.
//
// It returns when the API server knows, which would else fail the next request on one that it takes for open.
func (h *Harness) Reconnect() {
	h.front.mu.Lock()
	open := maps.Clone(h.front.open)
	h.front.mu.Unlock()
	for conn := range open {
		_ = conn.CloseWrite() // what it reads ends now, and so it closes its side
	}
	for conn, link := range open {
		select {
		case <-link.over:
		case <-time.After(10 * time.Second):
			_ = conn.Close()
		}
	}
}

// NewBalancer makes a balancer that listens on this machine.
func NewBalancer() (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: listener, open: map[*net.TCPConn]*link{}}
	b.running, b.end = context.WithCancel(context.Background())
	go b.serve()
	return b, nil
}

// Address is where the balancer listens, by a name that certificates can have.
func (b *Balancer) Address() string {
	return net.JoinHostPort("localhost", strconv.Itoa(b.listener.Addr().(*net.TCPAddr).Port))
}

// Close ends it. Connections that are open stay.
func (b *Balancer) Close() error {
	b.end()
	return b.listener.Close()
}

// Add sends a backend its share. The API server keeps connections open, so those that are open are cut, to be spread
// over all backends.
func (b *Balancer) Add(backend string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.backends, backend) {
		b.backends = append(b.backends, backend)
	}
}

// retire sends a backend no new connections. Those that are open stay, as they do when an endpoint is taken out.
func (b *Balancer) retire(backend string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.DeleteFunc(b.backends, func(other string) bool { return other == backend })
}

// remove sends a backend nothing any more.
func (b *Balancer) remove(backend string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.DeleteFunc(b.backends, func(other string) bool { return other == backend })
	for conn, link := range b.open {
		if link.backend == backend {
			_ = conn.Close()
		}
	}
}

func (b *Balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return ""
	}
	b.next++
	return b.backends[b.next%len(b.backends)]
}

func (b *Balancer) serve() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.forward(conn.(*net.TCPConn), b.pick())
	}
}

func (b *Balancer) forward(from *net.TCPConn, backend string) {
	defer from.Close()
	to, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer to.Close()
	l := &link{backend: backend, over: make(chan struct{})}
	defer close(l.over)
	b.mu.Lock()
	b.open[from] = l
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, from)
		b.mu.Unlock()
	}()
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}()
	go func() {
		b.answer(from, to)
		done <- struct{}{}
	}()
	<-done
}

// answer copies what a replica says, as fate has it.
func (b *Balancer) answer(dst io.Writer, src io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := src.Read(buffer)
		b.mu.Lock()
		fate := b.fate
		b.mu.Unlock()
		if fate != nil && n > 0 {
			met := fate()
			if Pause(b.running, met.Delay) != nil || met.Cut {
				return
			}
		}
		if _, failed := dst.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
