package guards

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/guard"
)

// TestOneKindLosesInTwoWays counts what TLSRoutes have lost of listeners and of host names together: a metric that is there twice makes
// all others unreadable.
func TestOneKindLosesInTwoWays(t *testing.T) {
	all := &losses{}
	listeners, hosts := all.of(guard.TCPRoute, guard.TLSRoute), all.of(guard.TLSRoute, guard.Ingress)
	registry := prometheus.NewRegistry()
	registry.MustRegister(conflictCounts{all})
	place := types.NamespacedName{Name: "a.test"}
	listeners.are(place, map[types.UID]told{"r1": {key: "a", points: 2, kind: guard.TLSRoute}})
	hosts.are(place, map[types.UID]told{"r1": {key: "a", points: 1, kind: guard.TLSRoute}, "i1": {key: "b", points: 1, kind: guard.Ingress}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, metric := range families[0].GetMetric() {
		got = append(got, fmt.Sprint(metric.GetLabel()[0].GetValue(), "=", metric.GetGauge().GetValue()))
	}
	slices.Sort(got)
	if text := strings.Join(got, " "); text != "Ingress=1 TCPRoute=0 TLSRoute=3" {
		t.Errorf("counted %s", text)
	}
	if places := hosts.requests(); len(places) != 1 || places[0].NamespacedName != place {
		t.Errorf("somebody has lost at %v", places)
	}
}
