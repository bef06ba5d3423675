package httpserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// TestLongHeaders: what a client may have kept in memory before anybody knows it is bounded.
func TestLongHeaders(t *testing.T) {
	listener, err := Listen("127.0.0.1:0", nil, 4)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	server := New("test", listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	go func() { ended <- server.Start(ctx) }()
	for length, want := range map[int]int{
		100:            http.StatusOK,
		mostHeader:     http.StatusOK, // the token of somebody with many groups
		6 * mostHeader: http.StatusRequestHeaderFieldsTooLarge,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", length))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a header of %d bytes is answered %s, want %d", length, resp.Status, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// numbered is a listener whose connections come from one address, and after so many from another.
type numbered struct {
	net.Listener
	first, came int
}

// from is a connection that says that it comes from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

func (n *numbered) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	n.came++
	client := byte(1)
	if n.came > n.first {
		client = 2
	}
	return from{conn, &net.TCPAddr{IP: net.IPv4(10, 0, 0, client), Port: n.came}}, err
}

// TestNobodyIsAnsweredInVain: where a connection is closed for another one, the answer to it is no longer worked on. net/http does not
// see to that when there is more to read than the request.
func TestNobodyIsAnsweredInVain(t *testing.T) {
	for name, request := range map[string]string{
		"a request":                     "GET / HTTP/1.1\r\nHost: replica\r\n\r\n",
		"the beginning of another one":  "GET / HTTP/1.1\r\nHost: replica\r\n\r\nG",
		"a body that nobody reads, yet": "POST / HTTP/1.1\r\nHost: replica\r\nContent-Length: 9\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			const most = 4
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			began, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				began <- struct{}{}
				select {
				case <-r.Context().Done():
					ended <- struct{}{}
				case <-release:
				}
			})
			listener := &bounded{Listener: &numbered{Listener: inner, first: most}, most: most, open: map[netip.Addr][]*connection{}}
			ctx, stop := context.WithCancel(t.Context())
			stopped := make(chan error)
			go func() { stopped <- New("test", listener, handler).Start(ctx) }()
			var conns []net.Conn
			for i := range most + 2 {
				conn, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				if i >= most { // for this client, one of the other's goes
					<-ended
				}
				<-began
			}
			close(release)
			for _, conn := range conns { // what is still to be read would keep the server from ending
				_ = conn.Close()
			}
			stop()
			if err := <-stopped; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

func TestErrorLog(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 0})
	log := newErrorLog(logger)
	handshake, panicked := "http: TLS handshake error from 10.0.0.1:2: EOF\n", "http: panic serving 10.0.0.1:2: oh\n"
	for _, line := range []string{handshake, panicked, handshake, handshake, panicked} {
		if _, err := fmt.Fprint(log, line); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 3 || strings.Count(strings.Join(lines, ""), "panic serving") != 2 {
		t.Errorf("logged is %q, want one handshake, and all that is none", lines)
	}
}
