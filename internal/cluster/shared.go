package cluster

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// share makes all equal strings take memory only once. It is for what many cached objects have in common: each of them
// was read with a copy of its own.
func share[S ~string](s *S) {
	*s = S(unique.Make(string(*s)).Value())
}

// shareMeta shares what objects of one kind and one namespace have in common.
func shareMeta(kind *metav1.TypeMeta, meta *metav1.ObjectMeta) {
	share(&kind.APIVersion)
	share(&kind.Kind)
	share(&meta.Namespace)
}
