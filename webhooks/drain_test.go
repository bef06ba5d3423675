package webhooks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// fakeServer keeps what is registered, and runs until its context ends, which is that of its requests, too.
type fakeServer struct {
	webhook.Server
	hook http.Handler
	base chan context.Context
}

func (s *fakeServer) Register(_ string, hook http.Handler) { s.hook = hook }

func (s *fakeServer) Start(ctx context.Context) error {
	s.base <- ctx
	<-ctx.Done()
	return nil
}

func TestDraining(t *testing.T) {
	const moment = 50 * time.Millisecond
	for name, test := range map[string]struct {
		end   func(stop, hangUp context.CancelFunc)
		wants bool
	}{
		"a request outlives the server":                      {func(stop, _ context.CancelFunc) { stop() }, true},
		"a request ends when nobody waits for its answer":    {func(_, hangUp context.CancelFunc) { hangUp() }, false},
		"a request outlives a server that stops with others": {func(stop, hangUp context.CancelFunc) { stop(); hangUp() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{base: make(chan context.Context)}
			server := &draining{Server: fake, drainPeriod: moment, idleConnections: newIdleConnections(time.Now)}
			enough := 4 * moment
			if !test.wants {
				enough = time.Minute // it ends before, however busy the machine is
			}
			began, ended := make(chan struct{}), make(chan bool)
			server.Register("/validate", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				select {
				case <-r.Context().Done():
					ended <- false
				case <-time.After(enough):
					ended <- true
				}
			}))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stopped := make(chan error, 1)
			go func() { stopped <- server.Start(ctx) }()
			connection, hangUp := context.WithCancel(<-fake.base)
			defer hangUp()
			go fake.hook.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(connection, http.MethodPost, "/validate", http.NoBody))
			<-began
			test.end(stop, hangUp)
			if got := <-ended; got != test.wants {
				t.Errorf("the request could go on: %v, want %v", got, test.wants)
			}
			stop()
			if err := <-stopped; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

func TestDrainingClosesConnections(t *testing.T) {
	fake := &fakeServer{base: make(chan context.Context)}
	server := &draining{Server: fake, drainPeriod: time.Hour, idleConnections: newIdleConnections(time.Now)}
	server.Register("/validate", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx, stop := context.WithCancel(t.Context())
	go server.Start(ctx) //nolint:errcheck // it drains for longer than this test takes
	base := <-fake.base
	ask := func() string {
		answer := httptest.NewRecorder()
		fake.hook.ServeHTTP(answer, httptest.NewRequestWithContext(base, http.MethodPost, "/validate", http.NoBody))
		return answer.Header().Get("Connection")
	}
	ask()
	if got := ask(); got != "" {
		t.Errorf("a server that goes on says Connection: %s", got)
	}
	stop()
	if got := ask(); got != "close" {
		t.Errorf("a server that stops says Connection: %s, want close", got)
	}
	if base.Err() != nil {
		t.Error("the server does not serve any more")
	}
}

// TestDecisionsKnowTheirTime: the API server says how long it waits, and the answer is to be there before.
func TestDecisionsKnowTheirTime(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"?timeout=30s": 25 * time.Second,
		"?timeout=99h": 25 * time.Second,
		"?timeout=1s":  time.Second * 5 / 6,
		"?timeout=3":   2500 * time.Millisecond,
		"?timeout=-1s": 2500 * time.Millisecond,
		"":             2500 * time.Millisecond,
	} {
		fake := &fakeServer{}
		newDraining(fake).Register("/validate", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := deadline(r.Context(), servicePatience); got != want {
				t.Errorf("%q: decided within %v, want %v", query, got, want)
			}
		}))
		fake.hook.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate"+query, http.NoBody))
	}
}
