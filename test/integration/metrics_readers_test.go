package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestMetricsInALoop has clients without the right to it ask for metrics in a loop: first with tokens that they make up, while streams get
// their ports; then with the token of a Pod, which the API server is asked about only now and then.
func TestMetricsInALoop(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{
		Replicas: 1, ControlPlane: controlplane.Options{Audit: true}, Flags: []string{"--metrics-secure=true"},
	}))
	e := w.newEdge("loop")
	madeUp := w.askForMetrics(func(client, n int) string { return fmt.Sprintf("made-up-%d-%d", client, n) })
	for i := range int32(20) {
		s := sti(fmt.Sprintf("edge-loop/s-%d", i), of("loop"), tcp(1000+i))
		e.create(s)
		e.programmed(s)
	}
	madeUp.refusedUntil(http.StatusUnauthorized, 100)

	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = "edge-loop", "stranger"
	w.create(account)
	token := &authenticationv1.TokenRequest{}
	must(w, w.Client.SubResource("token").Create(t.Context(), account, token))
	before, began := w.tokenReviews(), time.Now()
	stranger := w.askForMetrics(func(int, int) string { return token.Status.Token })
	stranger.refusedUntil(http.StatusForbidden, 400)
	// Every 10 s one is no longer known, and four may be reviewed together; a review that fails is made again.
	most := 4*(2+int(time.Since(began)/(10*time.Second))) + int(stranger.failed.Load())
	if got := w.tokenReviews() - before; got > most {
		t.Errorf("%d reviews of one token for %d refusals, want %d at most", got, stranger.answered[http.StatusForbidden].Load(), most)
	}
}

// loop is clients that ask the first replica for its metrics without a rest.
type loop struct {
	*fixture
	answered [http.StatusNetworkAuthenticationRequired + 1]atomic.Int64
	failed   atomic.Int64 // how many were not answered, or as an error of the server
	stop     context.CancelFunc
	clients  sync.WaitGroup
}

// askForMetrics starts clients, each of which asks with one token after the other.
func (w *fixture) askForMetrics(token func(client, n int) string) *loop {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	l := &loop{fixture: w, stop: stop}
	w.t.Cleanup(l.end)
	const clients = 16
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: clients}
	w.t.Cleanup(transport.CloseIdleConnections)
	for client := range clients {
		l.clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.ask(ctx, transport, token(client, n))
			}
		})
	}
	return l
}

// ask asks once, and counts the answer.
func (l *loop) ask(ctx context.Context, transport http.RoundTripper, token string) {
	url := strings.Replace(l.Replicas[0].Metrics, "http:", "https:", 1) + "/metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		l.failed.Add(1)
		return
	}
	if err := resp.Body.Close(); err != nil && ctx.Err() == nil {
		l.t.Error(err)
	}
	l.answered[resp.StatusCode].Add(1)
	if resp.StatusCode >= http.StatusInternalServerError {
		l.failed.Add(1)
	}
}

// refusedUntil waits until so many were refused with a status, ends the loop, and fails if anybody was let in.
func (l *loop) refusedUntil(status int, times int64) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("%d answers %d", times, status), func() error {
		return is(l.answered[status].Load() >= times, true)
	})
	l.end()
	if n := l.answered[http.StatusOK].Load(); n > 0 {
		l.t.Errorf("%d were let in", n)
	}
}

// end returns when nobody asks any more.
func (l *loop) end() {
	l.stop()
	l.clients.Wait()
}

// tokenReviews is how many tokens Portcullis has asked the API server about.
func (w *fixture) tokenReviews() (n int) {
	w.t.Helper()
	requests, err := w.asked()
	must(w, err)
	for i := range requests {
		if requests[i].Resource == "tokenreviews.authentication.k8s.io" {
			n++
		}
	}
	return n
}
