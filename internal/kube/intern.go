package kube

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// intern makes equal strings take memory only once. It is for what many cached objects have in common: each of them was
// read with a copy of its own.
func intern[S ~string](s *S) {
	*s = S(interned.canonical(string(*s)))
}

// interned are the strings that cached objects have in common.
var interned interner

// interner keeps a canonical copy of each string that was asked for of late. Users choose such strings, so there is a limit:
// when recent is full it becomes past, and what was past and of no use since is forgotten.
//
// The package unique can't take its place: without a Handle, which cached objects have no field for, it forgets a string at the next
// garbage collection, even where the string itself is still in use, and objects come to a cache over days.
type interner struct {
	mu           sync.Mutex
	recent, past map[string]string
}

// maxInterned is how many strings one generation has: more than a large cluster has namespaces, nodes and reasons together.
const maxInterned = 8192

// canonical is the copy of a string that all use.
func (i *interner) canonical(s string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if kept, known := i.recent[s]; known {
		return kept
	}
	kept, known := i.past[s]
	if !known {
		kept = strings.Clone(s) // it may be a part of a larger one
	}
	if i.recent == nil || len(i.recent) >= maxInterned {
		i.recent, i.past = map[string]string{}, i.recent
	}
	i.recent[kept] = kept
	return kept
}

// internMeta interns what objects of one kind and one namespace have in common.
func internMeta(kind *metav1.TypeMeta, meta *metav1.ObjectMeta) {
	intern(&kind.APIVersion)
	intern(&kind.Kind)
	intern(&meta.Namespace)
}
