package kube

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func claimOn(class string, protocol v1beta1.Protocol, port int32, by claim.Holder) *v1beta1.EdgeClaim {
	return claim.New(claim.Stream(class, protocol, port), claim.Claimant{Holder: by, UID: "u"})
}

func TestOccupancyFollowsTheClaims(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	o, err := NewOccupancy(t.Context(), cached{FakeInformers: informers})
	if err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &v1beta1.EdgeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	by := claim.StreamHolder("shop", "postgres")
	tcp, udp, other := claimOn("public", v1beta1.TCP, 53, by), claimOn("public", v1beta1.UDP, 53, by), claimOn("internal", v1beta1.TCP, 53, by)
	has := func(class string, protocol v1beta1.Protocol, want bool) {
		t.Helper()
		var free stream.PortSet
		free.AddRange(1, 65535)
		o.Subtract(&free, class, protocol)
		if free.Has(53) == want {
			t.Errorf("%s/53 of class %s has a claim: %v", protocol, class, !want)
		}
	}
	events.Add(tcp)
	events.Add(other)
	events.Add(&v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: "addr.192-0-2-1"}})
	has("public", v1beta1.TCP, true)
	has("public", v1beta1.UDP, false)
	has("internal", v1beta1.TCP, true)
	has("nosuch", v1beta1.TCP, false)
	events.Add(claim.New(claim.NodePort("TCP", 53), claim.Claimant{Holder: by}))
	has("", v1beta1.TCP, false)
	if got := o.Classes(v1beta1.TCP, 53); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"internal", "public"}) {
		t.Errorf("TCP/53 is somebody's of %v", got)
	}
	events.Add(udp)
	events.Delete(tcp)
	has("public", v1beta1.TCP, false)
	has("public", v1beta1.UDP, true)
	has("internal", v1beta1.TCP, true)

	// A watch that broke tells later, and not for certain, what is gone.
	o.set(toolscache.DeletedFinalStateUnknown{Key: "stream.public.udp.53", Obj: udp}, false)
	has("public", v1beta1.UDP, false)
	o.set("something else", true)
}

func BenchmarkOccupancySubtract(b *testing.B) {
	o := &Occupancy{ports: map[occupied]*stream.PortSet{}}
	for port := int32(1); port <= 65535; port++ {
		o.set(claimOn("public", v1beta1.TCP, port, claim.Holder{}), true)
	}
	var free stream.PortSet
	for b.Loop() {
		o.Subtract(&free, "public", v1beta1.TCP)
		if free.Len() != 0 {
			b.Fatal()
		}
	}
}
