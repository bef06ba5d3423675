package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// reviewTimeout is how long the API server may take to say who reads metrics, and whether it may, and how long somebody waits to be asked
	// about.
	reviewTimeout = 10 * time.Second
	// readerLetInFor is for how long a reader is not asked about again. Prometheus reads every replica several times a minute.
	readerLetInFor = time.Minute
	// readerRefusedFor is for how long a refusal is not asked about again: a permission counts soon after it is there, and who tries
	// in a loop costs the API server next to nothing.
	readerRefusedFor = 10 * time.Second
	// mostReaders is how many readings are known at a time, of those that are let in and of those that are refused.
	mostReaders = 256
	// mostUnderReview is how many readings the API server is asked about at a time. The reviews come out of the share of the API server
	// from which claims are written, too: any Pod can ask for metrics with tokens that it made up, and must not slow down admission.
	mostUnderReview = 4
)

// metricsReaders lets clients read metrics that the API server knows by their bearer token (TokenReview), and that may get the path
// (SubjectAccessReview). controller-runtime has a filter that asks the same of the same, by the library that API servers are made
// of. That links CEL, gRPC and tracing, and templates, for which the linker must keep every method of every type: half as
// much again as all else there is of the program.
type metricsReaders struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	// letIn and refused are the readings of late, with what they were answered. There are two, so that no number of refusals makes
	// a reader unknown.
	letIn, refused *cache.LRUExpireCache
	// underReview has an entry for each reading that is under review. Who waits to put one in is served in turn.
	underReview chan struct{}
}

// reading is what a client wants to read. It has no token, but what can only be made from it.
type reading struct {
	token        [sha256.Size]byte
	method, path string
}

// newMetricsReaders knows nobody yet.
func newMetricsReaders(config *rest.Config, httpClient *http.Client) (*metricsReaders, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client of TokenReviews: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client of SubjectAccessReviews: %w", err)
	}
	return &metricsReaders{
		tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(),
		letIn: cache.NewLRUExpireCache(mostReaders), refused: cache.NewLRUExpireCache(mostReaders),
		underReview: make(chan struct{}, mostUnderReview),
	}, nil
}

// filter lets through to metrics who may read them.
func (m *metricsReaders) filter(log logr.Logger, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status, err := m.judge(req)
		if err != nil {
			log.Error(err, "it could not be decided whether metrics may be read")
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		metrics.ServeHTTP(w, req)
	})
}

// judge is the status that a request is answered with: only http.StatusOK lets it in.
func (m *metricsReaders) judge(req *http.Request) (status int, err error) {
	token := bearerToken(req)
	if token == "" {
		return http.StatusUnauthorized, nil
	}
	wanted := reading{sha256.Sum256([]byte(token)), req.Method, req.URL.Path}
	if status, known := m.known(wanted); known {
		return status, nil
	}
	waiting, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	select {
	case m.underReview <- struct{}{}:
		defer func() { <-m.underReview }()
	case <-waiting.Done():
		return http.StatusServiceUnavailable, nil
	}
	if status, known := m.known(wanted); known { // the same may have been decided while this waited
		return status, nil
	}
	// What is found out is kept, so that it isn't in vain if the client has gone.
	status, err = m.review(context.WithoutCancel(req.Context()), token, wanted)
	switch {
	case err != nil: // nothing was decided
	case status == http.StatusOK:
		m.letIn.Add(wanted, status, readerLetInFor)
	default:
		m.refused.Add(wanted, status, readerRefusedFor)
	}
	return status, err
}

// known is what a reading was answered of late, if it was.
func (m *metricsReaders) known(wanted reading) (status int, ok bool) {
	for _, answered := range []*cache.LRUExpireCache{m.letIn, m.refused} {
		if status, ok := answered.Get(wanted); ok {
			return status.(int), true
		}
	}
	return 0, false
}

// review asks the API server who bears a token, and whether it may read what is wanted.
func (m *metricsReaders) review(ctx context.Context, token string, wanted reading) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	who, err = m.tokens.Create(ctx, who, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	may, err := m.access.Create(ctx, accessOf(&who.Status.User, wanted), metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing the access of %s: %w", who.Status.User.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// bearerToken is the token that a request bears, "" for none.
func bearerToken(req *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(req.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// accessOf asks whether a user may read something.
func accessOf(user *authenticationv1.UserInfo, wanted reading) *authorizationv1.SubjectAccessReview {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: strings.ToLower(wanted.method), Path: wanted.path},
	}}
}
