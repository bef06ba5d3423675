package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// audited is a Portcullis whose writes are counted.
func audited(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{Audit: true}}))
}

// written are all writes so far but those that were dry, the Lease of the leader, and what the test was refused.
func (w *fixture) written() []controlplane.Write {
	w.t.Helper()
	writes, err := w.Writes()
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(writes, func(w controlplane.Write) bool {
		return w.Resource == "leases.coordination.k8s.io" || strings.Contains(w.RequestURI, "dryRun=All") ||
			w.Code >= 400 && w.User != harness.User
	})
}

// silence is how long nothing is written until all is written: longer than a busy machine lets a replica wait for its
// turn.
const silence = 10 * time.Second

// quiet waits until nothing has been written for that long, and returns what has been by then.
func (w *fixture) quiet() []controlplane.Write {
	w.t.Helper()
	var last []controlplane.Write
	since := time.Now()
	w.eventually("writes to cease", func() error {
		now := w.written()
		if len(now) != len(last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < silence {
			return fmt.Errorf("%d writes, the last is %+v", len(now), now[max(0, len(now)-1):])
		}
		return nil
	})
	return last
}

// quietly fails the test if anything has been written since.
func (w *fixture) quietly(since []controlplane.Write, what string) {
	w.t.Helper()
	if now := w.written(); len(now) > len(since) {
		w.t.Errorf("%s wrote %+v", what, now[len(since):])
	}
}

// TestNoNeedlessWrites counts, at the API server, what dry runs and a steady state write: nothing.
func TestNoNeedlessWrites(t *testing.T) {
	t.Parallel()
	w := audited(t)
	e := w.newEdge("public", isDefault, autoAssign(20000, 20099), reserved(700, 799))
	w.create(namespace("team"), namespace("rival"))
	w.create(configMap(e.namespace+"/foreign", nil), service("team/web", port("http", 80)))
	var streams []*v1beta1.StreamIngress
	for i := range 50 {
		s := sti(fmt.Sprintf("team/s%d", i), tcp(1000+int32(i)))
		switch i % 5 {
		case 1:
			auto(TCP)(s)
		case 2:
			udp(1000 + int32(i))(s)
		case 3:
			outside(fmt.Sprintf("192.0.2.%d", i), 80)(s)
		case 4:
			outside(fmt.Sprintf("host%d.example.com", i), 80)(s)
		}
		streams = append(streams, s)
		w.create(s)
	}
	// What can't be programmed must not be tried all the time.
	w.programmed(streams...)
	before := w.quiet()
	dryRuns(t, w, e)
	w.quietly(before, "a dry run")
	steady(t, w, before)
}

// dryRuns asks kubectl what would happen, each way, and compares with what happens in truth where that is a no.
func dryRuns(t *testing.T, w *fixture, e *edge) {
	t.Helper()
	for name, test := range map[string]struct {
		key, spec string
		no        string
	}{
		"a free port":            {"rival/a", `{listen: 3000, upstream: {service: a, port: 1}}`, ""},
		"any port":               {"rival/a", `{upstream: {service: a, port: 1}}`, ""},
		"outside":                {"rival/a", `{listen: 3000, is_service: false, upstream: {host: 192.0.2.1, port: 1}}`, ""},
		"re-applied":             {"team/s0", `{listen: 1000, upstream: {service: web, port: 80}}`, ""},
		"moved to a free port":   {"team/s0", `{listen: 3000, upstream: {service: web, port: 80}}`, ""},
		"another's port":         {"rival/a", `{listen: 1000, upstream: {service: a, port: 1}}`, "held by StreamIngress team/s0 since"},
		"the proxy's port":       {"rival/a", `{listen: 443, upstream: {service: a, port: 1}}`, "held by Service edge-public/proxy since"},
		"moved to another's":     {"team/s0", `{listen: 1005, upstream: {service: web, port: 80}}`, "held by StreamIngress team/s5 since"},
		"reserved":               {"rival/a", `{listen: 750, upstream: {service: a, port: 1}}`, "reserves this port"},
		"an unknown class":       {"rival/a", `{className: x, listen: 3000, upstream: {service: a, port: 1}}`, "there is no StreamIngressClass of this name"},
		"another namespace":      {"rival/a", `{listen: 3000, upstream: {namespace: team, service: a, port: 1}}`, "has not consented"},
		"redirected there":       {"team/s0", `{listen: 1000, upstream: {namespace: rival, service: web, port: 80}}`, "has not consented"},
		"refused by the schema":  {"rival/a", `{listen: 0, upstream: {service: a, port: 1}}`, "greater than or equal to 1"},
		"moved where nothing is": {"team/s0", `{className: x, upstream: {service: web, port: 80}}`, "there is no StreamIngressClass of this name"},
	} {
		ns, object, _ := strings.Cut(test.key, "/")
		manifest := fmt.Sprintf("{apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1, kind: StreamIngress, metadata: {name: %s, namespace: %s}, spec: %s}", object, ns, test.spec)
		out, err := w.kubectl(manifest, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
		if (err != nil) != (test.no != "") || !strings.Contains(out, test.no) {
			t.Errorf("dry run, %s: want %q, got %s", name, test.no, out)
		}
		if test.no == "" {
			continue
		}
		if truth, err := w.kubectl(manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err == nil || truth != out {
			t.Errorf("%s: the dry run said\n%s\nand the real one says\n%s", name, out, truth)
		}
	}
	for _, port := range []int32{3000, 750} {
		if got := e.holder("public", TCP, port); got != "" {
			t.Errorf("%d is held by %s after a dry run", port, got)
		}
	}
}

// steady watches a whole minute in which nothing happens.
func steady(t *testing.T, w *fixture, before []controlplane.Write) {
	t.Helper()
	select {
	case <-time.After(time.Minute):
	case <-t.Context().Done():
		return
	}
	w.quietly(before, "a steady state of a minute")
}
