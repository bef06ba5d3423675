package stream

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestRestoreOfManyToOneService has 2,000 streams and as many entries lead to one Service, of two texts: each stream is looked at once.
func TestRestoreOfManyToOneService(t *testing.T) {
	const many = 2000
	entries := map[int32]string{}
	f := &counted{restored: restored{}}
	f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 29999))}
	f.services, f.streams = map[string]*corev1.Service{"shop/db": db}, map[string]*v1beta1.StreamIngress{}
	for i := range many {
		text := []string{"5432", "80"}[i/(many/2)] // those by name lead to the first
		entries[int32(20000+many-i)] = "shop/db:" + text
		s := sti(named("shop", fmt.Sprintf("s%04d", i)), leadingTo("", "db", []string{"sql", "80"}[i/(many/2)]))
		f.streams["shop/"+s.Name] = s
	}
	f.entries = map[v1beta1.Protocol]Current{v1beta1.TCP: entriesOfOurs(entries)}
	r := newRestorer(f, f.classes[0], v1beta1.TCP)
	assigned := r.assign(types.NamespacedName{Namespace: "shop", Name: "db"})
	if len(assigned) != many {
		t.Errorf("%d of %d are given", len(assigned), many)
	}
	for i := range many {
		port := int32(20001 + (i+many/2)%many)
		if s := assigned[port]; s == nil || s.Name != fmt.Sprintf("s%04d", i) {
			t.Fatalf("%d goes to %v, want s%04d", port, s, i)
		}
	}
	if f.looked > 2 {
		t.Errorf("the Service was looked up %d times", f.looked)
	}
}

// counted counts how often a Service is looked up.
type counted struct {
	restored
	looked int
}

func (c *counted) Service(key types.NamespacedName) *corev1.Service {
	c.looked++
	return c.restored.Service(key)
}
