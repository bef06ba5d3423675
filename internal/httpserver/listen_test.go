package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
)

// queue is a listener of connections that have come already.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) { return <-q, nil }
func (q queue) Close() error              { return nil }
func (q queue) Addr() net.Addr            { return nil }

// stub is a connection of a client that knows how often it was closed.
type stub struct {
	net.Conn
	from   net.Addr
	closed atomic.Int32
}

func (s *stub) RemoteAddr() net.Addr { return s.from }

func (s *stub) Close() error {
	if s.closed.Add(1) > 1 {
		return net.ErrClosed
	}
	return nil
}

// TestClientsHaveShares has clients come one after the other to a listener that has five connections open at most.
func TestClientsHaveShares(t *testing.T) {
	for name, test := range map[string]struct {
		// come are the last numbers of the addresses of those who come.
		come []byte
		// busy are which of them have a request answered from when they come, by their turns.
		busy []int
		// closed are which of them are closed, by their turns.
		closed []int
	}{
		"nobody is closed while there is room":          {come: []byte{1, 1, 1, 1, 1}},
		"one alone loses its oldest":                    {come: []byte{1, 1, 1, 1, 1, 1, 1}, closed: []int{0, 1}},
		"who has the most loses":                        {come: []byte{2, 1, 1, 1, 1, 3, 4}, closed: []int{1, 2}},
		"who comes again and again loses":               {come: []byte{2, 2, 1, 1, 1, 1, 1, 1, 1}, closed: []int{2, 3, 4, 5}},
		"among equals the oldest goes":                  {come: []byte{1, 2, 3, 4, 5, 6}, closed: []int{0}},
		"the oldest of all, though another has as many": {come: []byte{1, 2, 2, 1, 3, 4}, closed: []int{0}},
		"what is being answered goes last":              {come: []byte{1, 1, 1, 1, 1, 1, 1}, busy: []int{0, 2}, closed: []int{1, 3}},
		"who comes goes before what is being answered":  {come: []byte{1, 1, 1, 1, 1, 1}, busy: []int{0, 1, 2, 3, 4}, closed: []int{5}},
		"who has the most loses though it is answered":  {come: []byte{1, 1, 1, 1, 2, 2}, busy: []int{0, 1, 2, 3}, closed: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			come := make(queue, len(test.come))
			var stubs []*stub
			for i, last := range test.come {
				s := &stub{from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), uint16(i)))}
				stubs = append(stubs, s)
				come <- s
			}
			listener := &bounded{Listener: come, most: 5, open: map[netip.Addr][]*connection{}}
			var accepted []net.Conn
			for i := range stubs {
				c, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				c.(*connection).busy.Store(slices.Contains(test.busy, i))
				accepted = append(accepted, c)
			}
			for i, s := range stubs {
				if closed := s.closed.Load() > 0; closed != slices.Contains(test.closed, i) {
					t.Errorf("connection %d is closed: %v", i, closed)
				}
			}
			for i, c := range accepted { // as its server does, also with those that are closed already
				if err := c.Close(); (err != nil) != slices.Contains(test.closed, i) {
					t.Errorf("closing connection %d: %v", i, err)
				}
			}
			if listener.count != 0 || len(listener.open) != 0 {
				t.Errorf("%d connections of %d clients are open for ever", listener.count, len(listener.open))
			}
		})
	}
}

// TestFamiliesOfAddresses: a client of a port that listens on IPv4 and IPv6 is known by one address.
func TestFamiliesOfAddresses(t *testing.T) {
	come := make(queue, 3)
	for _, from := range []string{"10.0.0.1:1", "[::ffff:10.0.0.1]:2", "[fd00::1]:3"} {
		come <- &stub{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	}
	listener := &bounded{Listener: come, most: 5, open: map[netip.Addr][]*connection{}}
	for range 3 {
		if _, err := listener.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(listener.open); got != 2 {
		t.Errorf("%d clients are known, want 2: %v", got, listener.open)
	}
}

// TestRoomIsMadeOnASocket has a client come to a real port while another has all its connections.
func TestRoomIsMadeOnASocket(t *testing.T) {
	const most = 4
	listener, err := Listen("127.0.0.1:0", nil, most)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	var conns []net.Conn
	for range 3 * most {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
		if err := echo(conn); err != nil {
			t.Fatalf("a new connection is not served: %v", err)
		}
	}
	for i, conn := range conns {
		if err := echo(conn); (err == nil) != (i >= len(conns)-most) {
			t.Errorf("connection %d of %d: %v", i, len(conns), err)
		}
	}
}

// echo says whether a connection sends back what is sent.
func echo(conn net.Conn) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func TestAnAddressThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var syscall *net.OpError
	if _, err = Listen(taken.Addr().String(), nil, 1); !errors.As(err, &syscall) {
		t.Fatalf("got %v, want that the address is taken", err)
	}
	if want := fmt.Sprintf("listening on %s: ", taken.Addr()); err.Error()[:len(want)] != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
