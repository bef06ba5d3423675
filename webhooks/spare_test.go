package webhooks

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSpare(t *testing.T) {
	for name, test := range map[string]struct {
		// idle is how many connections are kept already, requests how many came in the second of the answer, and busy how
		// many are still being answered.
		idle, requests, busy int
		// later is how long after the requests the answer is.
		later time.Duration
		want  bool
	}{
		"the first is kept":                            {want: true},
		"a second one is not":                          {idle: 1},
		"many requests are worth more":                 {idle: 2, requests: 100, want: true},
		"but not any number":                           {idle: 3, requests: 100},
		"requests being answered are worth more":       {idle: 5, requests: 5, busy: 5, want: true},
		"as many as there are":                         {idle: 6, requests: 5, busy: 5},
		"a second later they still are":                {idle: 2, requests: 100, later: time.Second, want: true},
		"some seconds later they are not":              {idle: 1, requests: 100, later: 3 * time.Second},
		"those that the API server has closed are not": {idle: 3, later: 2 * time.Minute, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := newSpare(func() time.Time { return now })
			for i := range test.requests {
				s.use(fmt.Sprintf("busy-%d", i))
			}
			s.busy = test.busy + 1
			for i := range test.idle {
				s.since[fmt.Sprintf("idle-%d", i)] = now
			}
			now = now.Add(test.later)
			if got := s.keep("one"); got != test.want {
				t.Errorf("it is kept: %v, want %v", got, test.want)
			}
		})
	}
}

func TestUsedIsNotSpare(t *testing.T) {
	s := newSpare(time.Now)
	for range 3 {
		s.use("one")
		if !s.keep("one") {
			t.Error("the only connection is not kept")
		}
	}
	s.use("one")
	s.use("two")
	if !s.keep("two") || s.keep("one") {
		t.Error("of two, the first that is answered is to be kept")
	}
	if s.busy != 0 {
		t.Errorf("%d requests are answered for ever", s.busy)
	}
}

// TestFewConnectionsStayOpen lets many clients come at once, and then one after the other, to a real server.
func TestFewConnectionsStayOpen(t *testing.T) {
	const clients = 30
	var open atomic.Int32
	all := make(chan struct{})
	var came atomic.Int32
	fake := &fakeServer{base: make(chan context.Context)}
	Draining(fake).Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) == clients {
			close(all)
		}
		<-all // each of the crowd needs a connection of its own
		_, _ = w.Write([]byte("yes"))
	}))
	server := httptest.NewUnstartedServer(fake.hook)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	defer server.Close()
	var asking sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	ask := func() {
		resp, err := client.Post(server.URL+"/validate", "application/json", http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for range clients {
		asking.Go(ask)
	}
	asking.Wait()
	for range clients {
		ask()
	}
	const most = 1 + 2*clients/perSpare
	for range 100 {
		if open.Load() <= most {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d connections are kept, want %d at most", open.Load(), most)
}
