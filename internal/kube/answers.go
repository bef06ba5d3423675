package kube

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// largestAnswer is how much of an answer is read for a page, in bytes. An object has 1.5 MiB at most, as etcd takes no more; decoded
// it takes several times that in memory.
const largestAnswer = 8 << 20

// limited marks the context of a request whose answer must not be larger than largestAnswer.
type limited struct{}

func withLimitedAnswers(ctx context.Context) context.Context {
	return context.WithValue(ctx, limited{}, true)
}

// LimitAnswers is for the transport of a client (rest.Config.Wrap): requests of Pages fail with an *http.MaxBytesError when the answer
// is larger than 8 MiB, before more of it is read. Nothing else tells how large a page is before it is in memory: a page that is normal
// for small objects is more than there is memory for when a tenant makes each as large as it can. Other requests are let through.
func LimitAnswers(next http.RoundTripper) http.RoundTripper { return answerLimit{next} }

type answerLimit struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. It reads the answer here, as the client would log what goes wrong when it reads it later.
func (l answerLimit) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(request)
	if err != nil || request.Context().Value(limited{}) == nil {
		return answer, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, largestAnswer))
	_ = answer.Body.Close() // what was not read is not wanted
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// WrappedRoundTripper lets who looks for it find the transport beneath (k8s.io/apimachinery/pkg/util/net).
func (l answerLimit) WrappedRoundTripper() http.RoundTripper { return l.next }
