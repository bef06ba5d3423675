package reconcilers

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestClaimsAreCounted(t *testing.T) {
	c := clusterOf(t,
		claimed(at, me, "u", 1, noon), claimed(claim.Stream("public", v1beta1.UDP, 1), me, "u", 1, noon),
		claimed(claim.Stream("internal", v1beta1.TCP, 1), me, "u", 1, noon),
		claimed(claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 1), me, "u", 1, noon),
		claimed(claim.Address(netip.MustParseAddr("192.0.2.2")), me, "u", 1, noon),
	).Build()
	want := `
# HELP portcullis_claims EdgeClaims by scope.
# TYPE portcullis_claims gauge
portcullis_claims{scope="addr"} 2
portcullis_claims{scope="stream/internal"} 1
portcullis_claims{scope="stream/public"} 2
`
	if err := testutil.CollectAndCompare(claimCounts{c}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
