package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStreamsAreHandedOver hands ports over to streams of another namespace, while clients connect to them: of a class without a proxy, and of
// one in front of a Gateway. Each client is answered, by the Pods of the one or of the other.
func TestStreamsAreHandedOver(t *testing.T) {
	const direct, gateway = "10.77.0.221", "10.77.0.222"
	giver, heir := answering(t, "gives", 1, ""), answering(t, "takes", 1, "")
	echoes(t, giver)
	echoes(t, heir)
	t.Run("without a proxy", func(t *testing.T) { handedOver(t, giver, heir, kernelClass(t, "e2e-hands-direct", direct, ""), direct) })
	t.Run("on a Gateway", func(t *testing.T) { handedOver(t, giver, heir, gatewayClass(t, "e2e-hands-gateway", gateway), gateway) })
}

// handedOver opens a TCP and a UDP port of a class for streams of one namespace, and hands them over to those of another, and back, while
// clients connect to the address.
func handedOver(t *testing.T, giver, heir, class, address string) {
	t.Helper()
	atNode(t, 0, address)
	names, protocols := []string{"tcp", "udp"}, []string{"tcp", "udp"}
	for _, name := range names {
		if err := open(giver, name, class, strings.ToUpper(name), 80, "{service: echo, port: 80}"); err != nil {
			t.Fatal(err)
		}
	}
	moved(t, giver, class)
	first, _ := reachedBy(t, address+":80", protocols...)
	visits := visiting(t, slices.Repeat([]string{address}, 5)...) // fifty connections a second of each protocol
	for _, hand := range [][2]string{{giver, heir}, {heir, giver}} {
		from, to := hand[0], hand[1]
		t.Logf("from %s to %s", from, to)
		for _, name := range names {
			kubectl(t, "annotate", "streamingress", name, "-n", from, "nginx-stream.jeffthecoder.xyz/hand-over-to="+to+"/"+name)
			eventually(t, "the one who is named to be told yes", func() error { return open(to, name, class, strings.ToUpper(name), 80, "{service: echo, port: 80}") })
		}
		moved(t, to, class)
		kubectl(t, "delete", "streamingress", "--all", "-n", from)
	}
	eventually(t, "those who answered at first to answer in the end", func() error {
		if last, _ := reachedBy(t, address+":80", protocols...); strings.Join(first, " ") != strings.Join(last, " ") {
			return fmt.Errorf("%v answered at first, and %v do now", first, last)
		}
		return nil
	})
	visits.wereAnswered(t)
	kubectl(t, "delete", "streamingress", "--all", "-n", giver)
}

// TestAddressIsHandedOver hands an address of a pool over to a Service of another namespace, and back, while clients connect to it fifty times
// a second by each protocol. The Services are created as they are named, so that their endpoints are not known yet when they are listed.
// Each client is answered, by the Pods of the one or of the other.
func TestAddressIsHandedOver(t *testing.T) {
	const address, pool = "10.77.0.223", "e2e-hands-address"
	replicas(t)
	withArgs(t, "--hand-over-wait=5m") // for an endpoint of the heir, which a busy machine makes late
	namespaces := []string{answering(t, "gives-address", 1, ""), answering(t, "takes-address", 1, "")}
	answerers := map[string][]string{} // by the API, as the first answers after a change may be of the Pods of both
	for _, namespace := range namespaces {
		answerers[namespace] = strings.Fields(kubectl(t, "get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}"))
	}
	lend(t, pool, "addresses: ["+address+"]")
	atNode(t, 0, address)
	balance(t, namespaces[0], "web", pool, "")
	balancedAt(t, namespaces[0], "web", address)
	reached(t, address)

	visits := visiting(t, slices.Repeat([]string{address}, 5)...)
	for n := range 4 {
		from, to := namespaces[n%2], namespaces[(n+1)%2]
		t.Logf("from %s to %s", from, to)
		kubectl(t, "annotate", "service", "web", "-n", from, "nginx-stream.jeffthecoder.xyz/hand-over-to="+to+"/web")
		balanceAs(t, to, "web", "addresses", address, "")
		balancedAt(t, to, "web", address)
		balancedAt(t, from, "web")
		kubectl(t, "delete", "service", "web", "-n", from)
		eventually(t, "the Pods of who has it to answer, and no others", func() error {
			if names := reached(t, address); !slices.Equal(names, answerers[to]) {
				return fmt.Errorf("%v answered, %v are those of %s, and %v of %s", names, answerers[to], to, answerers[from], from)
			}
			return nil
		})
	}
	t.Logf("%d connections were not answered", visits.wereAnswered(t))
}
