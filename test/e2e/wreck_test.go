package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// crowd is how many come at once: more than the API server keeps connections of.
const crowd = 60

// TestWreckedNode cuts off and ends one of two nodes, the one with the leader. Of all files this one comes last: the node
// does not come back.
func TestWreckedNode(t *testing.T) {
	needs(t, target.script != "", "nodes are lost only on a cluster that CLUSTER makes")
	outlive := balancedOverNodes(t)
	victim := leadOn(t, "node1")
	fewPorts(t, "0")
	e, u := watchEndpoints(t), busy(t, "wreck")
	time.Sleep(settling)
	u.burst(t, 30000, crowd)
	time.Sleep(settling) // the connections that it took go with the requests that come after it
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
	u.burst(t, 31000, crowd/2) // on all connections that the API server has kept, for the one replica that is left
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

// leadOn makes the replica on a node the leader, and waits until there is one replica on each node.
func leadOn(t *testing.T, node string) replica {
	t.Helper()
	for range 6 {
		found := replicas(t)
		leading := leader(t)
		switch {
		case found[0].Spec.NodeName == found[1].Spec.NodeName:
			restart(t)
		case leading.Spec.NodeName == node:
			return leading
		default:
			kubectl(t, "delete", "pod", leading.Metadata.Name, "-n", system)
			awaitOther(t, leading)
		}
	}
	t.Fatalf("no leader on %s: %s", node, strings.TrimSpace(kubectl(t, "get", "pods", "-n", system, "-o", "wide")))
	return replica{}
}
