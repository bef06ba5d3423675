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

// TestRestoreToRecreatedStreams has streams that were deleted come anew, while their entries are there: each has the port that it would
// be given without entries, which is the one that it most often had, if that is left for it.
func TestRestoreToRecreatedStreams(t *testing.T) {
	f := &restored{entries: map[v1beta1.Protocol]Current{v1beta1.TCP: entriesOfOurs(map[int32]string{
		20002: "shop/db:5432", 20003: "shop/db:5432", 20004: "shop/db:5432", 20005: "shop/db:80", 20006: "shop/db:5432",
	})}}
	f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20006))}
	f.streams = map[string]*v1beta1.StreamIngress{"shop/stored": sti(named("shop", "stored"))}
	free, seen := &PortSet{}, map[int32]bool{}
	free.AddRange(20000, 20006)
	for i := range 100 {
		s := sti(named("shop", fmt.Sprintf("s%d", i)), aged(1))
		want := PickPort(free, s.Namespace, s.Name)
		if seen[want] = true; want != 20004 && want != 20006 {
			want = 20003 // the lowest that is left
		}
		request := Request{Class: f.classes[0], Free: free}
		if got := Offered(f, s, request, &PortSet{}).Port; got != want {
			t.Errorf("%s gets %d, want %d", s.Name, got, want)
		}
		if !IsAssignable(f, s, f.classes[0], tcp(want)) {
			t.Errorf("%s may not be assigned %d", s.Name, want)
		}
		f.streams["shop/"+s.Name] = s
		if got := Offered(f, f.streams["shop/stored"], request, &PortSet{}).Port; got != 20002 {
			t.Errorf("the one that is stored gets %d", got)
		}
		delete(f.streams, "shop/"+s.Name)
	}
	if len(seen) != 7 {
		t.Errorf("of 7 ports %d are tried", len(seen))
	}
}
