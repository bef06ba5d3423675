package claim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		holder Holder
		text   string
		stream bool
	}{
		"a stream":                  {StreamHolder("shop", "postgres"), "StreamIngress shop/postgres", true},
		"a ConfigMap":               {ConfigMapHolder("edge", "tcp"), "ConfigMap edge/tcp", false},
		"a Service":                 {ServiceHolder("edge", "proxy"), "Service edge/proxy", false},
		"a cluster-scoped object":   {Holder{Group: "x.example", Kind: "Pool", Name: "a"}, "Pool a", false},
		"a StreamIngress of others": {Holder{Group: "x.example", Kind: "StreamIngress", Namespace: "shop", Name: "postgres"}, "StreamIngress shop/postgres", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.holder.String(); got != tc.text {
				t.Errorf("String() = %q, want %q", got, tc.text)
			}
			if got := tc.holder.IsStream(); got != tc.stream {
				t.Errorf("IsStream() = %v", got)
			}
			if got, want := tc.holder.Key(), (types.NamespacedName{Namespace: tc.holder.Namespace, Name: tc.holder.Name}); got != want {
				t.Errorf("Key() = %v, want %v", got, want)
			}
			c := New(tcp(80), Claimant{Holder: tc.holder, UID: "u", Generation: 3})
			if got := HolderOf(c); got != tc.holder {
				t.Errorf("HolderOf(New()) = %v", got)
			}
		})
	}
}

func TestNew(t *testing.T) {
	got := New(Stream("public", v1beta1.UDP, 53), Claimant{Holder: StreamHolder("dns", "main"), UID: "u1", Generation: 7})
	want := &v1beta1.EdgeClaim{}
	want.Name = "stream.public.udp.53"
	want.Spec = v1beta1.EdgeClaimSpec{
		Scope: "stream/public", Point: "UDP/53", HeldBy: "StreamIngress dns/main",
		Holder: v1beta1.ClaimHolder{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "dns", Name: "main", UID: "u1", Generation: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
