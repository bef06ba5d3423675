package webhooks

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// from is the remote address of a connection that an API server has opened.
func from(server, connection int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(server)}), uint16(connection))
}

func TestIdleConnections(t *testing.T) {
	for name, test := range map[string]struct {
		// idle is how many connections are kept already, requests how many came in the second of the answer, and busy how
		// many are still being answered.
		idle, requests, busy int
		// others is how many connections another API server has.
		others int
		// later is how long after the requests the answer is.
		later time.Duration
		// abandoned says that nobody waits for the answer.
		abandoned bool
		want      bool
	}{
		"the first is kept":                        {requests: 2, want: true},
		"that of a single request is not":          {requests: 1},
		"a second one is not":                      {idle: 1, requests: 2},
		"nor for nine requests":                    {idle: 1, requests: 9},
		"many requests are worth more":             {idle: 10, requests: 100, want: true},
		"but not any number":                       {idle: 11, requests: 100},
		"requests being answered are worth more":   {idle: 5, requests: 5, busy: 5, want: true},
		"as many as there are":                     {idle: 6, requests: 5, busy: 5},
		"a second later they still are":            {idle: 10, requests: 100, later: time.Second, want: true},
		"some seconds later they are not":          {requests: 100, later: 3 * time.Second},
		"those of another API server do not count": {others: 3, requests: 2, want: true},
		"that of a request that was given up":      {abandoned: true, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := newIdleConnections(func() time.Time { return now })
			for i := range test.requests {
				s.begin(from(1, i))
			}
			s.busy = test.busy + 1
			for i := range test.idle {
				s.since[from(1, 1000+i)] = now
			}
			for i := range test.others {
				s.since[from(2, i)] = now
			}
			now = now.Add(test.later)
			if got := s.keep(from(1, 2000), !test.abandoned); got != test.want {
				t.Errorf("it is kept: %v, want %v", got, test.want)
			}
		})
	}
}

func TestUsedConnectionIsNotIdle(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newIdleConnections(func() time.Time { return now })
	one, two := from(1, 1), from(1, 2)
	for n := range 4 {
		s.begin(one)
		if s.keep(one, true) != (n > 0) {
			t.Error("the only connection is to be kept for all requests but the first")
		}
	}
	s.begin(one)
	s.begin(two)
	if !s.keep(two, true) || s.keep(one, true) {
		t.Error("of two, the first that is answered is to be kept")
	}
	if s.busy != 0 {
		t.Errorf("%d requests are answered for ever", s.busy)
	}
}

// TestIdleConnectionIsForgotten says which connections are not believed to be there any more.
func TestIdleConnectionIsForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		// next is the connection of the next request, and want says whether it is kept.
		next netip.AddrPort
		want bool
	}{
		"an API server that opens a connection has no other": {dialTimeout + 1, from(1, 2), true},
		"one that was opening it already may have":           {dialTimeout, from(1, 2), false},
		"who uses one may have others":                       {dialTimeout + 1, from(1, 1), false},
		"nobody keeps one for ever":                          {idleTimeout + 1, from(1, 1), true},
		"another API server tells nothing":                   {dialTimeout + 1, from(2, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := newIdleConnections(func() time.Time { return now })
			s.since[from(1, 1)], s.since[from(1, 3)] = now, now
			now = now.Add(test.after)
			s.begin(test.next)
			s.requests = 2
			if got := s.keep(test.next, true); got != test.want {
				t.Errorf("it is kept: %v, want %v", got, test.want)
			}
		})
	}
}

// TestFewConnectionsStayOpen lets many clients come at once, and then one after the other, to a real server.
func TestFewConnectionsStayOpen(t *testing.T) {
	const clients = 30
	for name, kept := range map[string]int{
		"the API server keeps all connections": clients,
		"it keeps fewer than it could":         5,
	} {
		t.Run(name, func(t *testing.T) {
			var open, opened atomic.Int32
			all := make(chan struct{})
			var came, later atomic.Int64
			fake := &fakeServer{base: make(chan context.Context)}
			clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			server := &draining{Server: fake, idleConnections: newIdleConnections(clock)}
			server.Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if came.Add(1) == clients {
					close(all)
				}
				<-all // each of the burst needs a connection of its own
				_, _ = w.Write([]byte("yes"))
			}))
			listening := httptest.NewUnstartedServer(fake.hook)
			listening.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
					opened.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			listening.Start()
			defer listening.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: kept}}
			ask := func() {
				resp, err := client.Post(listening.URL+"/validate", "application/json", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			var asking sync.WaitGroup
			for range clients {
				asking.Go(ask)
			}
			asking.Wait()
			// A client that is slow to find its request written closes the connection that it was to keep, and the next ones
			// are not kept until the server takes that one for closed. So not the first requests must share one, but soon,
			// before what the burst has left is forgotten.
			for elapsed := 2 * dialTimeout; ; elapsed += 2 * dialTimeout {
				later.Store(int64(elapsed))
				opened.Store(0)
				for range clients {
					ask()
				}
				if opened.Load() <= 2 {
					break
				}
				if elapsed > idleTimeout/3 {
					t.Fatalf("%d connections were opened for requests that follow each other, want one that stays", opened.Load())
				}
			}
			const most = 1 + clients/requestsPerConnection
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				if open.Load() <= most {
					return
				}
			}
			t.Errorf("%d connections are kept, want %d at most", open.Load(), most)
		})
	}
}
