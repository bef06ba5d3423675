package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPairsOfPortsAndClientSideAppliers: a strategic merge patch knows the ports of a Service by their number alone, so
// it can't tell TCP from UDP.
func TestPairsOfPortsAndClientSideAppliers(t *testing.T) {
	e := shared(t).newManualEdge("pairs")
	e.eventually("the class to be seen", func() error { return e.try(sti("pairs/t", of("pairs"), tcp(53))) })
	e.create(sti("pairs/u", of("pairs"), udp(53)), sti("pairs/u443", of("pairs"), udp(443)))
	standing := func(after string) {
		t.Helper()
		begin := time.Now()
		e.leads(TCP, 53, "pairs/web:80")
		e.leads(UDP, 53, "pairs/web:80")
		e.leads(UDP, 443, "pairs/web:80")
		t.Logf("%s: right after %s", after, time.Since(begin).Round(time.Millisecond))
		e.intact()
	}
	standing("created")
	for _, patch := range []string{
		`{"spec":{"ports":[{"port":53,"$patch":"delete"}]}}`,
		`{"spec":{"ports":[{"port":53,"protocol":"UDP","$patch":"delete"}]}}`,
		`{"spec":{"ports":[{"port":53,"protocol":"TCP","name":"tcp-53"}]}}`,
		`{"spec":{"ports":[{"port":443,"name":"https","protocol":"TCP","targetPort":"https"}]}}`,
	} {
		out, err := e.kubectl("", "patch", "service", "proxy", "-n", e.namespace, "--type=strategic", "-p", patch)
		t.Logf("%s: %s (%v)", patch, strings.TrimSpace(out), err)
		standing(patch)
	}

	t.Log("an owner that opens one of a pair of its own, and takes it away again")
	with := strings.Replace(fmt.Sprintf(owners, e.namespace), "]}}", ", {name: quic, port: 444, protocol: UDP}]}}", 1)
	e.mustKubectl(with, "apply", "-f", "-")
	e.heldBy("pairs", UDP, 444, "Service edge-pairs/proxy")
	e.create(sti("pairs/t444", of("pairs"), tcp(444)))
	e.leads(TCP, 444, "pairs/web:80")
	e.mustKubectl(strings.Replace(with, "port: 444", "port: 444, targetPort: 4444", 1), "apply", "-f", "-")
	e.leads(TCP, 444, "pairs/web:80")
	e.applyOwners()
	e.heldBy("pairs", UDP, 444, "")
	e.leads(TCP, 444, "pairs/web:80")
	standing("the owner's own pair")
}
