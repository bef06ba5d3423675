package webhooks

import (
	"context"
	"fmt"
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
		// idle is how many connections are kept already, and requests how many come in the second of the answer.
		idle, requests int
		// later is how long after the requests the answer is.
		later time.Duration
		want  bool
	}{
		"the first is kept":                            {want: true},
		"a second one is not":                          {idle: 1},
		"many requests are worth more":                 {idle: 2, requests: 100, want: true},
		"but not any number":                           {idle: 3, requests: 100},
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
}

// TestFewConnectionsStayOpen lets many clients come at once, to a real server.
func TestFewConnectionsStayOpen(t *testing.T) {
	const clients = 30
	var open atomic.Int32
	all := make(chan struct{})
	var came sync.WaitGroup
	came.Add(clients)
	go func() { came.Wait(); close(all) }()
	fake := &fakeServer{base: make(chan context.Context)}
	Draining(fake).Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Done()
		<-all // each needs a connection of its own
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
	for range clients {
		asking.Go(func() {
			resp, err := client.Post(server.URL+"/validate", "application/json", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	asking.Wait()
	for range 100 {
		if open.Load() <= 1 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d connections are kept, want 1 at most", open.Load())
}
