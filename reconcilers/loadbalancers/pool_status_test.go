package loadbalancers

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

func TestLevels(t *testing.T) {
	for _, test := range []struct {
		total, free int64
		want        level
	}{
		{0, 0, plenty}, {1, 1, plenty}, {1, 0, empty}, {9, 1, plenty}, {10, 1, plenty}, {10, 0, empty}, {11, 1, nearlyEmpty},
		{100, 10, plenty}, {100, 9, nearlyEmpty}, {101, 10, nearlyEmpty}, {254, 26, plenty}, {254, 25, nearlyEmpty},
		{math.MaxInt64, math.MaxInt64, plenty}, {math.MaxInt64, 1, nearlyEmpty},
	} {
		if got := levelOf(test.total, test.total-test.free); got != test.want {
			t.Errorf("%d of %d are free: got %d, want %d", test.free, test.total, got, test.want)
		}
	}
}

func TestEachCrossingIsToldOnce(t *testing.T) {
	l := levels{}
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for i, step := range []struct {
		family corev1.IPFamily
		now    level
		want   bool
	}{
		{v4, plenty, false}, {v4, nearlyEmpty, true}, {v4, nearlyEmpty, false}, {v6, nearlyEmpty, true}, {v4, empty, true}, {v4, empty, false},
		{v4, nearlyEmpty, false}, {v4, empty, true}, {v4, plenty, false}, {v4, empty, true}, {v6, nearlyEmpty, false},
	} {
		if got := l.note(pool, step.family, step.now); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	pool.UID = "2"
	if !l.note(pool, v4, empty) {
		t.Error("another pool of the name is not told")
	}
	pool.Status.ObservedGeneration = 1
	if (levels{}).note(pool, v4, empty) {
		t.Error("a new leader tells what was told")
	}
}

func TestPoolStatus(t *testing.T) {
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 3}}
	pool.Spec.Addresses = []string{"192.0.2.0/24"}
	book := addresspool.NewBook([]*v1beta1.AddressPool{pool})
	verdict, _ := book.Verdict("a")
	status := poolStatus(pool, verdict, kube.PoolCount{Known: true, Total: 256, Assigned: 250})
	if *status.Total != 256 || *status.Assigned != 250 || *status.Free != 6 || status.ObservedGeneration != 3 {
		t.Errorf("got %+v", status)
	}
	pool.Status = status
	more := poolStatus(pool, verdict, kube.PoolCount{Known: true, Total: 256, Assigned: 251})
	if sameStatus(status, more) || !sameVerdict(status, more) {
		t.Error("a count is not told from a verdict")
	}
	pool.Spec.Addresses = []string{"192.0.2.0/33"}
	refused := poolStatus(pool, book.Judge(pool), kube.PoolCount{})
	if c := refused.Conditions[0]; c.Status != "False" || c.Reason != v1beta1.ReasonInvalid || refused.Total != nil || sameVerdict(status, refused) {
		t.Errorf("got %+v", refused)
	}
}
