package report

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/events"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestHandedOverIsToldOnce hands a hundred ports of an address over, and one of another, and then one back: each time both sides have one
// event.
func TestHandedOverIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := events.NewFakeRecorder(100)
		tell := HandedOver(to)
		old, heir := claim.ServiceHolder("shop", "old"), claim.ServiceHolder("data", "new")
		hand := func(ip string, port int32, from, to claim.Holder) {
			at := claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
			c := claim.New(at, claim.Claimant{Holder: to, UID: "u", Generation: int64(port)})
			giver := from.Spec("g")
			giver.Generation = int64(port)
			tell(t.Context(), giver, c)
		}
		for port := range int32(100) {
			hand("192.0.2.7", 1000+port, old, heir)
		}
		hand("192.0.2.8", 80, old, heir)
		time.Sleep(2 * gather)
		hand("192.0.2.7", 1000, heir, old)
		time.Sleep(2 * gather)
		ports := "TCP/1000, TCP/1001, TCP/1002, TCP/1003, TCP/1004, TCP/1005, TCP/1006, TCP/1007 and 92 more of addr/192.0.2.7 are"
		want := []string{
			told(v1beta1.ReasonHandedOver, ports+" handed over to Service data/new"),
			told(v1beta1.ReasonTookOver, ports+" taken over from Service shop/old"),
			told(v1beta1.ReasonHandedOver, "TCP/80 of addr/192.0.2.8 is handed over to Service data/new"),
			told(v1beta1.ReasonTookOver, "TCP/80 of addr/192.0.2.8 is taken over from Service shop/old"),
			told(v1beta1.ReasonHandedOver, "TCP/1000 of addr/192.0.2.7 is handed over to Service shop/old"),
			told(v1beta1.ReasonTookOver, "TCP/1000 of addr/192.0.2.7 is taken over from Service data/new"),
		}
		var got []string
		for len(to.Events) > 0 {
			got = append(got, <-to.Events)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("told is\n%q, want\n%q", got, want)
		}
	})
}

func told(reason, text string) string { return fmt.Sprintf("Normal %s %s", reason, text) }
