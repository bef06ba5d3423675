package kube

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// share makes equal strings take memory only once. It is for what many cached objects have in common: each of them was
// read with a copy of its own.
func share[S ~string](s *S) {
	*s = S(common.one(string(*s)))
}

// common are the strings that cached objects have in common.
var common copies

// copies keep one copy of each string that was asked for of late. Users choose such strings, so there is a limit: when
// recent is full it becomes past, and what was past and of no use since is forgotten.
type copies struct {
	mu           sync.Mutex
	recent, past map[string]string
}

// maxCopies is how many strings one generation has: more than a large cluster has namespaces, nodes and reasons together.
const maxCopies = 8192

// one is the copy of a string that all share.
func (c *copies) one(s string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, known := c.recent[s]; known {
		return kept
	}
	kept, known := c.past[s]
	if !known {
		kept = strings.Clone(s) // it may be a part of a larger one
	}
	if c.recent == nil || len(c.recent) >= maxCopies {
		c.recent, c.past = map[string]string{}, c.recent
	}
	c.recent[kept] = kept
	return kept
}

// shareMeta shares what objects of one kind and one namespace have in common.
func shareMeta(kind *metav1.TypeMeta, meta *metav1.ObjectMeta) {
	share(&kind.APIVersion)
	share(&kind.Kind)
	share(&meta.Namespace)
}
