package loadbalancers

import (
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestBridgesLastAsLongAsIsSaid holds that a Service stays listed for as long as an option says.
func TestBridgesLastAsLongAsIsSaid(t *testing.T) {
	key, ip := types.NamespacedName{Namespace: "shop", Name: "web"}, netip.MustParseAddr("192.0.2.7")
	for _, wait := range []time.Duration{0, time.Hour} {
		b := newBridges(wait)
		if left := b.left(key, ip); left > wait || (left > 0) != (wait > 0) {
			t.Errorf("of %s there are %s left", wait, left)
		}
		b.since[key][ip] = time.Now().Add(-wait)
		if left := b.left(key, ip); left != 0 {
			t.Errorf("after %s there are %s left", wait, left)
		}
	}
}
