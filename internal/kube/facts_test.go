package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// questioned counts the questions for Services, and answers some with an error.
type questioned struct {
	Reader
	asked   map[string]int
	failing string
}

// features are asked nothing.
func (q *questioned) features() features { return features{} }

var errAway = errors.New("the cluster is away")

func (q *questioned) Service(_ context.Context, key types.NamespacedName) (*corev1.Service, error) {
	q.asked[key.Name]++
	if key.Name == q.failing {
		return nil, errAway
	}
	return &corev1.Service{}, nil
}

func TestFactsAreAskedOnceInADecision(t *testing.T) {
	q := &questioned{asked: map[string]int{}}
	found, err := Decide(t.Context(), q, func(f *Facts) int {
		found := 0
		for _, name := range []string{"a", "b", "a", "a"} {
			if f.Service(types.NamespacedName{Name: name}) != nil {
				found++
			}
		}
		return found
	})
	if err != nil || found != 4 || q.asked["a"] != 1 || q.asked["b"] != 1 {
		t.Errorf("found %d, %v, asked %v", found, err, q.asked)
	}
}

func TestTheFirstErrorEndsADecision(t *testing.T) {
	q := &questioned{asked: map[string]int{}, failing: "a"}
	found, err := Decide(t.Context(), q, func(f *Facts) bool {
		return f.Service(types.NamespacedName{Name: "a"}) == nil && f.Service(types.NamespacedName{Name: "b"}) == nil
	})
	if found || !errors.Is(err, errAway) || q.asked["b"] != 0 {
		t.Errorf("decided %v, %v, asked %v", found, err, q.asked)
	}
}
