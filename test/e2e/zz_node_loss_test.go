package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// burstSize is how many requests come at once: more than the API server keeps connections of.
const burstSize = 60

// TestNodeLoss cuts off and ends one of two nodes, the one with the leader. The node does not come back, so this test runs last:
// go test takes the files by their names.
func TestNodeLoss(t *testing.T) {
	needs(t, target.script != "", "nodes are lost only on a cluster that CLUSTER makes")
	outlive := balancedOverNodes(t)
	victim := leadOn(t, "node1", "node0")
	fewPorts(t, "0")
	e, u := watchEndpoints(t), busy(t, "node-loss")
	time.Sleep(settling)
	u.calm(t)
	u.burst(t, 30000, burstSize)
	time.Sleep(settling) // the connections that it took go with the requests that come after it
	asShipped(t)         // by then a connection to the lost one is given up
	begin := time.Now()
	// A machine without power says goodbye to nobody: its link goes before its processes do.
	if err := command(target.script, "node", "1", "ip", "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	if err := command(target.script, "kill-node", "1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl(t, "delete", "node", "node1") }) // with what is still said to run there
	next := awaitOther(t, victim)
	t.Logf("%s leads after %s", next.Metadata.Name, time.Since(begin).Round(time.Second))
	awaitGone(t, e, victim)
	time.Sleep(taking)
	u.burst(t, 31000, burstSize/2) // on all connections that the API server has kept, for the one replica that is left
	eventually(t, "another replica to be ready", func() error {
		found, err := list[replica]("pods", "-n", system, "-l", "app.kubernetes.io/component=manager", "--field-selector=spec.nodeName!=node1")
		if err != nil || len(found) != 2 || !found[0].ready() || !found[1].ready() {
			return fmt.Errorf("there are %+v: %w", found, err)
		}
		return nil
	})
	t.Logf("two replicas are ready after %s", time.Since(begin).Round(time.Second))
	outlive()
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.failedOnlyBetween(t, e, victim, begin)
	u.keptTheirWord(t)
}

// fewPorts leaves a node so few ports for its connections that it soon has to use those again which it had for attempts
// to reach a dead node. Where a Service has led such an attempt, the kernel leads the next one from the same port.
func fewPorts(t *testing.T, node string) {
	t.Helper()
	const setting = "/proc/sys/net/ipv4/ip_local_port_range"
	before, err := exec.CommandContext(t.Context(), target.script, "node", node, "cat", setting).Output()
	if err != nil {
		t.Fatal(err)
	}
	set := func(ports string) {
		if err := command(target.script, "node", node, "sh", "-c", "echo "+ports+" >"+setting); err != nil {
			t.Error(err)
		}
	}
	set("40000 40999")
	t.Cleanup(func() { set(strings.TrimSpace(string(before))) })
}

// leadOn makes a replica on the first of two nodes the leader, and leaves the other replica on the second. While the second takes
// no pods, both replicas move to the first, and so does the lead; then the one that does not lead moves to the second.
func leadOn(t *testing.T, node, other string) replica {
	t.Helper()
	var leading replica
	for attempt := 1; ; attempt++ { // a leader that is not heard of for ten seconds, on a busy machine, leads no longer
		whileCordoned(t, other, func() {
			replace(t, func(r replica) bool { return r.Spec.NodeName != node })
		})
		leading = leader(t)
		whileCordoned(t, node, func() {
			replace(t, func(r replica) bool { return r.Metadata.Name != leading.Metadata.Name })
		})
		now := leader(t)
		if now.identity == leading.identity && now.Spec.NodeName == node {
			break
		}
		if attempt == 3 {
			t.Fatalf("%s on %s leads, not %s on %s", now.identity, now.Spec.NodeName, leading.identity, node)
		}
	}
	for _, r := range replicas(t) {
		if r.Metadata.Name != leading.Metadata.Name && r.Spec.NodeName != other {
			t.Fatalf("%s is on %s, not on %s", r.Metadata.Name, r.Spec.NodeName, other)
		}
	}
	return leading
}

// whileCordoned does something while a node takes no new pods. The node takes them again also when the test fails.
func whileCordoned(t *testing.T, node string, do func()) {
	t.Helper()
	kubectl(t, "cordon", node)
	defer kubectl(t, "uncordon", node)
	do()
}

// replace deletes some of the replicas, waits until they are gone, as kubectl does, and then until there are two ready ones again.
func replace(t *testing.T, which func(replica) bool) {
	t.Helper()
	for _, r := range replicas(t) {
		if which(r) {
			kubectl(t, "delete", "pod", r.Metadata.Name, "-n", system)
		}
	}
	replicas(t)
}
