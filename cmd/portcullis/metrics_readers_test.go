package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync/atomic"
	"testing"

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
	reviews atomic.Int32
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.reviews.Add(1)
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

func decode[T any](t *testing.T, req *http.Request, into *T) *T {
	if err := json.NewDecoder(req.Body).Decode(into); err != nil {
		t.Error(err)
	}
	return into
}

// guarded are metrics that are guarded by what a reviewer says.
func guarded(t *testing.T, r *reviewer) http.Handler {
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	filter, err := newMetricsReaders(config, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if err != nil {
		t.Fatal(err)
	}
	return handler
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

// TestMetricsReadersAreKnown holds that who was let in is not asked about again, but for what it was let in to; and that a refusal is.
func TestMetricsReadersAreKnown(t *testing.T) {
	r := &reviewer{t: t}
	handler := guarded(t, r)
	for i, step := range []struct {
		method, token string
		want          int
		reviews       int32
	}{
		{http.MethodGet, powerful, http.StatusOK, 2},
		{http.MethodGet, powerful, http.StatusOK, 2},
		{http.MethodPut, powerful, http.StatusForbidden, 4},
		{http.MethodGet, known, http.StatusForbidden, 6},
		{http.MethodGet, known, http.StatusForbidden, 8},
		{http.MethodGet, powerful, http.StatusOK, 8},
	} {
		if got := status(t, handler, step.method, "/metrics", "Bearer "+step.token); got != step.want {
			t.Errorf("step %d: status %d, want %d", i, got, step.want)
		}
		if got := r.reviews.Load(); got != step.reviews {
			t.Errorf("step %d: %d reviews, want %d", i, got, step.reviews)
		}
	}
}
