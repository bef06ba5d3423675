package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const podToIPLabel = "nginx-stream.jeffthecoder.xyz/pod-to-ip"

// pod is what the tests read of Pods.
type pod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp *string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, PodIP string
	}
}

// podToIP is what the tests read of PodToIPs.
type podToIP struct {
	Metadata struct {
		Name            string
		OwnerReferences []struct{ UID string }
	}
	Spec struct {
		PodAddress, NodeName string
	}
}

// alive are the Pods of a namespace that are neither finished nor terminating, by name.
func alive(t *testing.T, namespace string, args ...string) map[string]pod {
	t.Helper()
	pods, err := list[pod](append([]string{"pods", "-n", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]pod{}
	for _, p := range pods {
		if p.Metadata.DeletionTimestamp == nil && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" {
			named[p.Metadata.Name] = p
		}
	}
	return named
}

// matches waits until there are as many living Pods as wanted, each with the PodToIP that it should have, and no other
// PodToIP. It returns the Pods.
func matches(t *testing.T, namespace string, want int) (pods map[string]pod) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d Pods with their PodToIPs", want), func() error {
		entries, err := list[podToIP]("ptp", "-n", namespace)
		if err != nil {
			return err
		}
		pods = alive(t, namespace)
		had, has := map[string]string{}, map[string]string{}
		for name, p := range pods {
			had[name] = fmt.Sprintf("%s on %s, of %s", p.Status.PodIP, p.Spec.NodeName, p.Metadata.UID)
		}
		for _, e := range entries {
			has[e.Metadata.Name] = fmt.Sprintf("%s on %s, of %s", e.Spec.PodAddress, e.Spec.NodeName, e.Metadata.OwnerReferences[0].UID)
		}
		if len(pods) != want || !maps.Equal(had, has) {
			return fmt.Errorf("%d Pods:\n%v\nPodToIPs:\n%v", len(pods), had, has)
		}
		return nil
	})
	return pods
}

// one is the only Pod.
func one(pods map[string]pod) pod {
	for _, p := range pods {
		return p
	}
	return pod{}
}

func TestPodToIPsOfADeployment(t *testing.T) {
	ns := newNamespace(t, "deployment", podToIPLabel+"=enabled")
	kubectl(t, "create", "deployment", "web", "-n", ns, "--image="+target.pause, "--replicas=3")
	kubectl(t, "rollout", "status", "deployment/web", "-n", ns, "--timeout="+patience.String())
	pods := matches(t, ns, 3)
	t.Logf("\n%s", kubectl(t, "get", "ptp", "-n", ns, "-o", "wide"))
	for name, p := range pods {
		out := kubectl(t, "get", "ptp", "-A", "--no-headers", "--field-selector", "spec.podAddress="+p.Status.PodIP)
		if fields := strings.Fields(out); len(fields) != 5 || !slices.Equal(fields[:4], []string{ns, name, p.Status.PodIP, p.Spec.NodeName}) {
			t.Errorf("a look-up of %s finds %q, want %s", p.Status.PodIP, out, name)
		}
	}

	kubectl(t, "scale", "deployment/web", "-n", ns, "--replicas=1")
	killed := one(matches(t, ns, 1))

	kubectl(t, "delete", "pod", killed.Metadata.Name, "-n", ns, "--grace-period=5", "--wait=false")
	successor := one(matches(t, ns, 1))
	if successor.Metadata.UID == killed.Metadata.UID || successor.Status.PodIP == killed.Status.PodIP {
		t.Errorf("the Pod after the killed one is %+v", successor)
	}

	kubectl(t, "label", "namespace", ns, podToIPLabel+"-")
	eventually(t, "no PodToIP without the label", func() error {
		if entries, err := list[podToIP]("ptp", "-n", ns); err != nil || len(entries) > 0 {
			return fmt.Errorf("%d PodToIPs: %w", len(entries), err)
		}
		return nil
	})
}

func TestPodToIPOfAStatefulSet(t *testing.T) {
	ns := newNamespace(t, "statefulset", podToIPLabel+"=enabled")
	apply(t, ns, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: db, image: "`+target.pause+`"}]}
`)
	kubectl(t, "rollout", "status", "statefulset/db", "-n", ns, "--timeout="+patience.String())
	former := one(matches(t, ns, 1))
	for range 3 {
		kubectl(t, "delete", "pod", "db-0", "-n", ns)
		eventually(t, "another Pod db-0", func() error {
			if p := alive(t, ns)["db-0"]; p.Status.PodIP == "" || p.Metadata.UID == former.Metadata.UID {
				return fmt.Errorf("it is %+v", p)
			}
			return nil
		})
		former = one(matches(t, ns, 1))
	}
}

func TestPodToIPOfAJob(t *testing.T) {
	ns := newNamespace(t, "job", podToIPLabel+"=enabled")
	image := kubectl(t, "get", "deployment", "portcullis", "-n", "portcullis-system",
		"-o", "jsonpath={.spec.template.spec.containers[0].image}")
	apply(t, ns, `
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    metadata: {labels: {app: once}}
    spec: {restartPolicy: Never, containers: [{name: once, image: "`+image+`", args: [--version]}]}
`)
	kubectl(t, "wait", "--for=condition=Complete", "job/once", "-n", ns, "--timeout="+patience.String())
	matches(t, ns, 0)
	pods, err := list[pod]("pods", "-n", ns)
	if err != nil || len(pods) != 1 || pods[0].Status.Phase != "Succeeded" {
		t.Fatalf("the Job left the Pods %+v: %v", pods, err)
	}
}

func TestWhoMaySeePodToIPs(t *testing.T) {
	ns := newNamespace(t, "viewer", podToIPLabel+"=enabled")
	kubectl(t, "create", "rolebinding", "developer", "-n", ns, "--clusterrole=view", "--user=e2e-developer")
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=portcullis-podtoip-viewer", "--user=e2e-network")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", ns) })
	may := func(user string, args ...string) string {
		out, _ := tryKubectl("", append([]string{"auth", "can-i", "--as=" + user}, args...)...) // a no is an error, too
		return strings.TrimSpace(out)
	}
	for _, c := range []struct{ user, verb, resource, where, want string }{
		{"e2e-developer", "list", "podtoips", ns, "yes"},
		{"e2e-developer", "list", "podtoips", "default", "no"},
		{"e2e-developer", "delete", "podtoips", ns, "no"},
		{"e2e-network", "list", "podtoips", "", "yes"},
		{"e2e-network", "watch", "podtoips", "", "yes"},
		{"e2e-network", "get", "pods", "", "no"},
		{"e2e-network", "patch", "podtoips", ns, "no"},
	} {
		where := []string{c.verb, c.resource, "-A"}
		if c.where != "" {
			where = []string{c.verb, c.resource, "-n", c.where}
		}
		eventually(t, fmt.Sprintf("%s to be told %s to %v", c.user, c.want, where), func() error {
			if got := may(c.user, where...); got != c.want {
				return fmt.Errorf("got %q", got)
			}
			return nil
		})
	}
}
