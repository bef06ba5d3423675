package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	known    = "a token that is known"
	powerful = "a token of one who may"
)

// reviewer is an API server that knows two tokens, and lets one of them get /metrics.
type reviewer struct {
	t       *testing.T
	broken  string // the resource whose reviews fail, empty for none
	takes   time.Duration
	reviews atomic.Int32
	// atOnce is how many reviews are under way, and most the most that ever were.
	atOnce, most atomic.Int32
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.reviews.Add(1)
	r.begin()
	defer r.atOnce.Add(-1)
	select {
	case <-time.After(r.takes):
	case <-req.Context().Done():
	}
	var answer any
	switch req.URL.Path {
	case "/apis/authentication.k8s.io/v1/" + r.broken, "/apis/authorization.k8s.io/v1/" + r.broken:
		http.Error(w, "out of order", http.StatusTeapot)
		return
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		review := decode(r.t, req, &authenticationv1.TokenReview{})
		if token := review.Spec.Token; token == known || token == powerful {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{
				Username: token, UID: "4711", Groups: []string{"scrapers"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"prometheus-0"}},
			}
		}
		answer = review
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := decode(r.t, req, &authorizationv1.SubjectAccessReview{})
		want := authorizationv1.SubjectAccessReviewSpec{
			User: powerful, UID: "4711", Groups: []string{"scrapers"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"prometheus-0"}},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
		}
		review.Status.Allowed = reflect.DeepEqual(review.Spec, want)
		answer = review
	default:
		r.t.Errorf("%s %s is asked for", req.Method, req.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		r.t.Error(err)
	}
}

// begin counts a review that begins.
func (r *reviewer) begin() {
	now := r.atOnce.Add(1)
	for {
		if most := r.most.Load(); now <= most || r.most.CompareAndSwap(most, now) {
			return
		}
	}
}

func decode[T any](t *testing.T, req *http.Request, into *T) *T {
	if err := json.NewDecoder(req.Body).Decode(into); err != nil {
		t.Error(err)
	}
	return into
}

// RoundTrip implements http.RoundTripper: what is sent to the API server stays in the process.
func (r *reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// guarded are metrics that are guarded by what a reviewer says.
func guarded(t *testing.T, r *reviewer) http.Handler {
	config := &rest.Config{Host: "http://reviewer.test", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	readers, err := newMetricsReaders(config, &http.Client{Transport: r})
	if err != nil {
		t.Fatal(err)
	}
	return readers.filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
}

func status(t *testing.T, handler http.Handler, method, path, authorization string) int {
	req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, req)
	return answer.Code
}

func TestMetricsReaders(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, authorization, broken string
		want                                int
		reviews                             int32
	}{
		"who may is let in":                {authorization: "Bearer " + powerful, want: http.StatusOK, reviews: 2},
		"the scheme has no case":           {authorization: "bEARER " + powerful, want: http.StatusOK, reviews: 2},
		"nobody is not":                    {want: http.StatusUnauthorized},
		"a password is no token":           {authorization: "Basic " + powerful, want: http.StatusUnauthorized},
		"an empty token is none":           {authorization: "Bearer ", want: http.StatusUnauthorized},
		"an unknown token is refused":      {authorization: "Bearer of nothing", want: http.StatusUnauthorized, reviews: 1},
		"who may not is refused":           {authorization: "Bearer " + known, want: http.StatusForbidden, reviews: 2},
		"another method is another matter": {method: http.MethodPost, authorization: "Bearer " + powerful, want: http.StatusForbidden, reviews: 2},
		"so is another path":               {path: "/other", authorization: "Bearer " + powerful, want: http.StatusForbidden, reviews: 2},
		"no review of tokens": {
			authorization: "Bearer " + powerful, broken: "tokenreviews", want: http.StatusInternalServerError, reviews: 1,
		},
		"no review of access": {
			authorization: "Bearer " + powerful, broken: "subjectaccessreviews", want: http.StatusInternalServerError, reviews: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reviewer{t: t, broken: tc.broken}
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			if tc.path == "" {
				tc.path = "/metrics"
			}
			if got := status(t, guarded(t, r), tc.method, tc.path, tc.authorization); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
			if got := r.reviews.Load(); got != tc.reviews {
				t.Errorf("%d reviews, want %d", got, tc.reviews)
			}
		})
	}
}

// TestMetricsReadersAreKnown holds that who was answered is not asked about again for a while, but for what it was answered to: longer when
// it was let in than when it was refused.
func TestMetricsReadersAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviewer{t: t}
		handler := guarded(t, r)
		for i, step := range []struct {
			method, token string
			after         time.Duration
			want          int
			reviews       int32
		}{
			{http.MethodGet, powerful, 0, http.StatusOK, 2},
			{http.MethodGet, powerful, 0, http.StatusOK, 2},
			{http.MethodPut, powerful, 0, http.StatusForbidden, 4},
			{http.MethodGet, known, 0, http.StatusForbidden, 6},
			{http.MethodGet, known, 0, http.StatusForbidden, 6},
			{http.MethodGet, "of nobody", 0, http.StatusUnauthorized, 7},
			{http.MethodGet, "of nobody", 0, http.StatusUnauthorized, 7},
			{http.MethodGet, known, readerRefusedFor + 1, http.StatusForbidden, 9},
			{http.MethodGet, "of nobody", 0, http.StatusUnauthorized, 10},
			{http.MethodGet, powerful, 0, http.StatusOK, 10},
			{http.MethodGet, powerful, readerLetInFor, http.StatusOK, 12},
		} {
			time.Sleep(step.after)
			if got := status(t, handler, step.method, "/metrics", "Bearer "+step.token); got != step.want {
				t.Errorf("step %d: status %d, want %d", i, got, step.want)
			}
			if got := r.reviews.Load(); got != step.reviews {
				t.Errorf("step %d: %d reviews, want %d", i, got, step.reviews)
			}
		}
	})
}

// TestMetricsReadersAreNoFlood holds that few readings are under review at a time, however many clients make up tokens; that a
// reader is served among them; and that one who was let in is not forgotten for them.
func TestMetricsReadersAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviewer{t: t, takes: 5 * time.Millisecond}
		handler := guarded(t, r)
		ended := flood(t, handler, "first")
		if got := status(t, handler, http.MethodGet, "/metrics", "Bearer "+powerful); got != http.StatusOK {
			t.Errorf("a reader in a flood: status %d, want %d", got, http.StatusOK)
		}
		ended.Wait()
		flood(t, handler, "second").Wait()
		reviews := r.reviews.Load()
		if got := status(t, handler, http.MethodGet, "/metrics", "Bearer "+powerful); got != http.StatusOK || r.reviews.Load() != reviews {
			t.Errorf("the same after another one: status %d, want %d without a review", got, http.StatusOK)
		}
		if got := r.most.Load(); got != mostUnderReview {
			t.Errorf("%d reviews at once, want %d", got, mostUnderReview)
		}
	})
}

// flood asks for metrics with many tokens of nobody at once, and returns when all are being judged, or wait for that.
func flood(t *testing.T, handler http.Handler, name string) *sync.WaitGroup {
	var clients sync.WaitGroup
	for i := range 4 * mostReaders {
		clients.Go(func() {
			token := fmt.Sprintf("Bearer the %s of nobody %d", name, i)
			if got := status(t, handler, http.MethodGet, "/metrics", token); got != http.StatusUnauthorized {
				t.Errorf("%s: status %d, want %d", token, got, http.StatusUnauthorized)
			}
		})
	}
	synctest.Wait()
	return &clients
}

// TestMetricsReadersOfOneToken holds that clients with one token are asked about together.
func TestMetricsReadersOfOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviewer{t: t, takes: 5 * time.Millisecond}
		handler := guarded(t, r)
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() { status(t, handler, http.MethodGet, "/metrics", "Bearer "+known) })
		}
		clients.Wait()
		if got := r.reviews.Load(); got > 2*mostUnderReview {
			t.Errorf("%d reviews for 100 requests with one token, want %d at most", got, 2*mostUnderReview)
		}
	})
}

// TestMetricsReadersWaitNotForEver holds that who waits is answered while the API server does not answer.
func TestMetricsReadersWaitNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := guarded(t, &reviewer{t: t, takes: time.Hour})
		var answered [http.StatusNetworkAuthenticationRequired]atomic.Int32
		var waiting sync.WaitGroup
		for i := range 10 * mostUnderReview {
			waiting.Go(func() {
				answered[status(t, handler, http.MethodGet, "/metrics", fmt.Sprintf("Bearer %d", i))].Add(1)
			})
		}
		waiting.Wait()
		failed, unavailable := answered[http.StatusInternalServerError].Load(), answered[http.StatusServiceUnavailable].Load()
		if failed < mostUnderReview || failed+unavailable != 10*mostUnderReview {
			t.Errorf("%d reviews failed, and %d requests waited in vain: want %d, and the rest", failed, unavailable, mostUnderReview)
		}
	})
}
