package claims

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

func TestClaimsAreCounted(t *testing.T) {
	c := accesstest.Cluster(t,
		accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, accesstest.Noon), accesstest.Claimed(claim.Stream("public", v1beta1.UDP, 1), accesstest.HolderOfPostgres, "u", 1, accesstest.Noon),
		accesstest.Claimed(claim.Stream("internal", v1beta1.TCP, 1), accesstest.HolderOfPostgres, "u", 1, accesstest.Noon),
		accesstest.Claimed(claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 1), accesstest.HolderOfPostgres, "u", 1, accesstest.Noon),
		accesstest.Claimed(claim.Address(netip.MustParseAddr("192.0.2.2")), accesstest.HolderOfPostgres, "u", 1, accesstest.Noon),
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
