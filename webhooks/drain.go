package webhooks

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// draining is a server that answers, when it stops, the requests that it has and those that still come on its connections. While it
// runs it leaves the API server few idle connections, and reads only so many large requests at a time.
type draining struct {
	webhook.Server
	drainPeriod     time.Duration
	stopping        <-chan struct{}
	idleConnections *idleConnections
	bodies          bodies
}

// drainPeriod is how long a server goes on serving when it is told to stop. In that time every answer has its connection closed
// by the API server, which otherwise might send a request on one that is just being closed here.
const drainPeriod = 2 * time.Second

// newDraining makes a server answer the requests that it has, and those on the connections that it has, when it is told to
// stop. By itself it would wait for the former alone; a rolling update would fail what users apply.
func newDraining(server webhook.Server) *draining {
	return &draining{Server: server, drainPeriod: drainPeriod, idleConnections: newIdleConnections(time.Now), bodies: newBodies()}
}

// Start serves until the context has ended, the drain period is over, and the last request is answered.
func (d *draining) Start(ctx context.Context) error {
	d.stopping = ctx.Done()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(d.drainPeriod, stop) })()
	return d.Server.Start(serving)
}

// Register serves hook. The context of a request ends when the API server gives up, not when this server stops.
func (d *draining) Register(path string, hook http.Handler) {
	d.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote, _ := netip.ParseAddrPort(r.RemoteAddr) // as net/http writes it
		d.idleConnections.begin(remote)
		answered := &reply{ResponseWriter: w, keep: func() bool {
			return d.idleConnections.keep(remote, r.Context().Err() == nil) && !d.isStopping()
		}}
		defer answered.decide()
		ctx, cancel := context.WithCancel(withPatience(context.WithoutCancel(r.Context()), r))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() {
			if !d.isStopping() {
				cancel()
			}
		})()
		ctx, done, err := d.bodies.take(ctx, w, r)
		if err != nil { // without a verdict the API server does what the failure policy says
			http.Error(answered, "too many large requests are being answered; try again", http.StatusServiceUnavailable)
			return
		}
		defer done()
		hook.ServeHTTP(answered, r.WithContext(ctx))
	}))
}

type patienceKey struct{}

// mostPatience is how long an API server waits for an answer at most (timeoutSeconds of a webhook). Another client may claim more.
const mostPatience = 30 * time.Second

// withPatience keeps how long the API server waits for the answer to a request: it says so in the URL, as any client does.
func withPatience(ctx context.Context, r *http.Request) context.Context {
	patience, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || patience <= 0 {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, min(patience, mostPatience))
}

// deadline is how long a decision may take, so that its answer is there in time: the API server waits for as long as it has
// said, or else as the manifests say.
func deadline(ctx context.Context, manifest time.Duration) time.Duration {
	if patience, said := ctx.Value(patienceKey{}).(time.Duration); said {
		manifest = patience
	}
	return manifest * 5 / 6
}

func (d *draining) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}
