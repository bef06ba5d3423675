package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// kinds are the CustomResourceDefinitions of Portcullis.
var kinds = []string{"addresspools", "edgeclaims", "streamingressclasses", "streamingresses", "podtoips"}

func definition(plural string) string { return plural + "." + v1beta1.GroupName }

// installation is a Portcullis that has opened one door of each sort.
type installation struct {
	*edge
	// kept is asked for again by install, dropped is not.
	kept, dropped *v1beta1.StreamIngress
	pool, nodes   *v1beta1.AddressPool
	// inPool and byNodes are served by the two pools.
	inPool, byNodes *corev1.Service
	// noProxy is a class without a proxy, with streams of which passed is asked for again, and closing is not.
	noProxy         *v1beta1.StreamIngressClass
	passed, closing *v1beta1.StreamIngress
}

// uninstalling starts a Portcullis that opens one door of each sort, and records what is asked of the API server. What a
// former installation has left is kept for longer than any test takes.
func uninstalling(t *testing.T, replicas int) *installation {
	t.Helper()
	w := newFixture(t, start(t, harness.Options{
		ControlPlane: controlplane.Options{Audit: true, AuditReads: true}, Replicas: replicas,
		Flags: slices.Concat(shortLease, []string{"--claim-grace=1h"}),
	}))
	i := &installation{
		edge:    w.newManualEdge("uninstall"),
		kept:    sti("uninstall/kept", of("uninstall"), tcp(5432)),
		dropped: sti("uninstall/dropped", of("uninstall"), udp(443)),
		pool:    addressPool("uninstall", []string{"192.0.2.0/24"}, forAll),
		nodes:   source("uninstall-nodes", v1beta1.SourceNodeIP),
		noProxy: kernelClass("uninstall-direct", "uninstall"),
		passed:  sti("uninstall/passed", of("uninstall-direct"), tcp(5432)),
		closing: sti("uninstall/closing", of("uninstall-direct"), udp(443)),
	}
	i.noProxy.Spec.AddressPool.Addresses = []string{"192.0.2.8"}
	w.node("n", "198.51.100.1")
	w.eventually("the class to be seen", func() error { return w.try(i.kept) })
	out := sti("uninstall/out", of("uninstall"), tcp(636), outside("192.0.2.1", 636))
	i.inPool = balancer("uninstall/balanced", wants("192.0.2.7"))
	i.byNodes = balancer("uninstall/nodes", from(i.nodes.Name), inPool(i.nodes.Name))
	web := asking("uninstall/web", "host=uninstall.example.com")
	w.create(i.dropped, out, i.pool, i.nodes, namespace(i.noProxy.Name), i.noProxy)
	w.eventually("the pools to be seen", func() error { return w.try(i.inPool) })
	w.eventually("the pools to be seen", func() error { return w.try(i.byNodes) })
	w.create(web)
	i.leads(TCP, 5432, "uninstall/web:80")
	i.leads(UDP, 443, "uninstall/web:80")
	i.reaches(out, "TCP 192.0.2.1:636")
	w.eventually("the class without a proxy to be seen", func() error { return w.try(i.passed) })
	w.create(i.closing)
	w.programmed(i.kept, i.dropped, out, i.passed, i.closing)
	i.passes(TCP, 5432)
	i.passes(UDP, 443)
	i.balanced()
	w.serves(web, "Prefix uninstall.example.com/ -> web:80")
	return i
}

// balanced waits until both Services of type LoadBalancer are served.
func (i *installation) balanced() {
	i.t.Helper()
	i.balances(i.inPool, "192.0.2.7 VIP TCP/80")
	i.balances(i.byNodes, "198.51.100.1 VIP TCP/80")
}

// passes waits until a port of the class without a proxy is forwarded at its address.
func (i *installation) passes(protocol v1beta1.Protocol, port int32) {
	i.t.Helper()
	i.forwards(i.noProxy.Name, protocol, port, "192.0.2.8 -> ")
}

// doors are all objects, as they are stored, by which traffic gets in.
func (i *installation) doors() map[string]string {
	i.t.Helper()
	doors := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.ServiceList{}, &networkingv1.IngressList{}, &discoveryv1.EndpointSliceList{},
	} {
		for _, namespace := range []string{"uninstall", i.namespace, i.noProxy.Name} {
			must(i.fixture, i.Client.List(i.t.Context(), list, client.InNamespace(namespace)))
			content, err := json.Marshal(list)
			must(i.fixture, err)
			var read struct{ Items []json.RawMessage }
			must(i.fixture, json.Unmarshal(content, &read))
			for _, item := range read.Items {
				var object unstructured.Unstructured
				must(i.fixture, json.Unmarshal(item, &object.Object))
				doors[fmt.Sprintf("%T %s/%s", list, namespace, object.GetName())] = string(item)
			}
		}
	}
	return doors
}

// unchanged fails the test for every door that is not as it was, to the byte, and for every write of a replica to one since
// there were so many writes.
func (i *installation) unchanged(was map[string]string, since int) {
	i.t.Helper()
	now := i.doors()
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if now[name] != was[name] {
			i.t.Errorf("%s was\n%s\nand is\n%s", name, was[name], now[name])
		}
	}
	if len(now) != len(was) {
		i.t.Errorf("there were %d doors, and are %d", len(was), len(now))
	}
	for _, write := range i.toDoors()[since:] {
		i.t.Errorf("Portcullis has tried to %s %s %s/%s, which was answered with %d", write.Verb, write.Resource, write.Namespace, write.Name, write.Code)
	}
}

// toDoors are the writes of replicas to doors, granted or not.
func (i *installation) toDoors() []controlplane.Write {
	i.t.Helper()
	writes, err := i.Writes()
	must(i.fixture, err)
	return slices.DeleteFunc(writes, func(r controlplane.Write) bool {
		resource, _, _ := strings.Cut(strings.TrimSuffix(r.Resource, "/status"), ".")
		return r.User != harness.User || !slices.Contains([]string{"configmaps", "services", "ingresses", "endpointslices"}, resource)
	})
}

// asksForKinds waits until replicas have asked for the kinds once more than so far, as they do from time to time while they
// leave everything as it is.
func (i *installation) asksForKinds() {
	i.t.Helper()
	count := func() int {
		requests, err := i.Requests()
		must(i.fixture, err)
		return len(slices.DeleteFunc(requests, func(r controlplane.Request) bool {
			return r.User != harness.User || r.Verb != "get" || !strings.HasPrefix(r.Resource, "customresourcedefinitions")
		}))
	}
	before := count()
	i.eventually("the kinds to be asked for", func() error { return is(count() > before, true) })
}

const (
	leaves   = "Portcullis is being uninstalled, and leaves everything as it is"
	troubled = `"Reconciler error"`
)

// says waits until a replica has said something so often, and fails the test when it was more often.
func (i *installation) says(r *harness.Replica, what string, times int) {
	i.t.Helper()
	said := func() int { return strings.Count(r.LogTail(1<<24), what) }
	i.eventually(fmt.Sprintf("%q to be said %d times", what, times), func() error { return is(said() >= times, true) })
	if n := said(); n > times {
		i.t.Errorf("%q is said %d times, want %d", what, n, times)
	}
}

// calm fails the test if reconcilers of a replica have reported errors since it says that Portcullis is being uninstalled.
func (i *installation) calm(r *harness.Replica) {
	i.t.Helper()
	log := r.LogTail(1 << 24)
	if log = log[max(0, strings.LastIndex(log, leaves)):]; strings.Contains(log, troubled) {
		i.t.Errorf("%d errors of reconcilers are in the log:\n%s", strings.Count(log, troubled), errorsIn(log))
	}
}

// reinstall ends the leader, installs the kinds and a replica again, and asks for a part of what was there.
func (i *installation) reinstall(flags ...string) *harness.Replica {
	i.t.Helper()
	next := i.reinstallEmpty(flags...)
	i.again(i.class, i.pool, i.nodes, i.noProxy, i.kept, i.passed)
	return next
}

// reinstallEmpty ends the leader, and installs the kinds and a replica again.
func (i *installation) reinstallEmpty(flags ...string) *harness.Replica {
	i.t.Helper()
	for _, r := range i.Replicas {
		must(i.fixture, r.Terminate())
	}
	objects, err := controlplane.Render(i.t.Context(), "config/crd")
	must(i.fixture, err)
	must(i.fixture, controlplane.Apply(i.t.Context(), i.Config(), "install", objects...))
	next, err := i.StartReplica(i.t.Context(), flags...)
	must(i.fixture, err)
	// A leader that has not begun to look for what to let go of when the kinds vanish does not begin any more.
	i.eventually("the leader to look for what no class names", func() error {
		return is(strings.Contains(next.LogTail(1<<24), `"msg":"Starting workers","controller":"formertarget"`), true)
	})
	return next
}

// again creates objects anew.
func (i *installation) again(objects ...client.Object) {
	i.t.Helper()
	for _, object := range objects {
		object.SetResourceVersion("")
		object.SetUID("")
		i.eventually(object.GetName()+" to be created again", func() error { return client.IgnoreAlreadyExists(i.try(object)) })
	}
}

// TestUninstallation deletes the kinds under a running leader, another one first each time: everything stays as it was. They
// are installed again, and what is asked for again is adopted: its entry stays in the ConfigMap all the time. What nobody
// asks for any longer is closed by a leader to whom the grace is over.
func TestUninstallation(t *testing.T) {
	t.Parallel()
	i := uninstalling(t, 1)
	current, entries := i.Replicas[0], configMap(i.namespace+"/tcp-services", nil)
	for _, first := range kinds[:4] {
		t.Logf("%s go first", first)
		was, writes := i.doors(), len(i.toDoors())
		i.mustKubectl("", "delete", "crd", definition(first), "--timeout="+patience.String())
		i.says(current, leaves, 1)
		args := []string{"delete", "crd", "--timeout=" + patience.String()}
		for _, kind := range kinds {
			if kind != first {
				args = append(args, definition(kind))
			}
		}
		i.mustKubectl("", args...)
		i.asksForKinds()
		i.unchanged(was, writes)
		i.says(current, leaves, 1)
		i.calm(current)

		i.get(entries)
		version := entries.ResourceVersion
		current = i.reinstall()
		i.programmed(i.kept)
		i.heldBy("uninstall", TCP, 5432, "StreamIngress uninstall/kept")
		i.balanced()
		i.get(entries)
		if entries.ResourceVersion != version {
			t.Errorf("the entries were written while they were adopted: %v", entries.Data)
		}
		i.leads(UDP, 443, "uninstall/web:80")
		i.programmed(i.passed)
		i.passes(TCP, 5432)
		i.passes(UDP, 443)
	}
	i.reinstall("--claim-grace=1s")
	i.leads(UDP, 443, "closed")
	i.forwards(i.noProxy.Name, UDP, 443, "closed")
	i.passes(TCP, 5432)
	i.leads(TCP, 636, "closed")
	i.leads(TCP, 5432, "uninstall/web:80")
	i.intact()
}

// TestUninstallationGivesWay installs the kinds again, and nobody asks for the class without a proxy. What its streams have left stays
// open, until the address is somebody else's.
func TestUninstallationGivesWay(t *testing.T) {
	t.Parallel()
	t.Run("to a Service", func(t *testing.T) {
		givesWay(t, func(i *installation) {
			taker := balancer("uninstall/taker", wants("192.0.2.8"))
			i.eventually("the address to be given to a Service", func() error { return i.try(taker) })
			i.balances(taker, "192.0.2.8 VIP TCP/80")
		})
	})
	t.Run("to another class", func(t *testing.T) {
		givesWay(t, func(i *installation) {
			class := kernelClass("taker", i.pool.Name, func(c *v1beta1.StreamIngressClass) { c.Spec.AddressPool.Addresses = []string{"192.0.2.8"} })
			i.create(namespace("taker"))
			i.eventually("the address to be given to a class", func() error { return i.try(class) })
			i.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
		})
	})
}

// givesWay uninstalls with streams open, installs again, and has somebody take the address.
func givesWay(t *testing.T, take func(*installation)) {
	t.Helper()
	t.Parallel()
	i := uninstalling(t, 1)
	args := []string{"delete", "crd", "--timeout=" + patience.String()}
	for _, kind := range kinds {
		args = append(args, definition(kind))
	}
	i.mustKubectl("", args...)
	i.says(i.Replicas[0], leaves, 1)
	i.reinstallEmpty()
	i.hasEvent(i.inPool, "no AddressPool gives it 192.0.2.7, at which it is served")
	i.hasEvent(i.byNodes, "no AddressPool gives it 198.51.100.1, at which it is served")
	i.balanced()
	i.again(i.pool, i.nodes)
	i.pointHeldBy("addr.192-0-2-7", "Service uninstall/balanced")
	i.pointHeldBy("node.tcp.80", "Service uninstall/nodes")
	i.balanced()
	i.passes(TCP, 5432)
	i.passes(UDP, 443)

	take(i)
	i.forwards(i.noProxy.Name, TCP, 5432, "closed")
	i.forwards(i.noProxy.Name, UDP, 443, "closed")
	i.intact()
}

// TestUninstallationAtOnce deletes all manifests at once, as `kubectl delete -f` does, in their order and in the opposite one,
// under a running leader: it loses its kinds, its rights and its Lease, and ends without having touched a door.
func TestUninstallationAtOnce(t *testing.T) {
	t.Parallel()
	for name, reversed := range map[string]bool{"in order": false, "in reverse": true} {
		t.Run(name, func(t *testing.T) {
			i := uninstalling(t, 1)
			objects, err := controlplane.Render(t.Context(), "config/overlays/standalone")
			must(i.fixture, err)
			// No controller here finishes the deletion of a namespace.
			objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
			if reversed {
				slices.Reverse(objects)
			}
			var manifests strings.Builder
			for _, o := range objects {
				content, err := json.Marshal(o)
				must(i.fixture, err)
				manifests.WriteString("---\n" + string(content) + "\n")
			}
			was, writes := i.doors(), len(i.toDoors())
			i.mustKubectl(manifests.String(), "delete", "-f", "-", "--timeout="+patience.String())
			select {
			case <-i.Replicas[0].Ended(): // it can't renew its Lease
			case <-time.After(patience):
				t.Error("the leader goes on without a Lease")
			}
			i.unchanged(was, writes)
			i.calm(i.Replicas[0])
			if n := strings.Count(i.Replicas[0].LogTail(1<<24), leaves); n > 1 {
				t.Errorf("%q is said %d times", leaves, n)
			}
			left, err := i.kubectl("", "get", "crd,clusterrole", "-l", "app.kubernetes.io/name=portcullis", "-o", "name")
			if err = errors.Join(err, is(strings.Contains(left, "portcullis") || strings.Contains(left, v1beta1.GroupName), false)); err != nil {
				t.Errorf("left behind: %v\n%s", err, left)
			}
		})
	}
}

// TestUninstallationUnderTwoLeaders holds the kinds where they are, half gone: what has no finalizer has vanished. Another
// replica takes over there, and then one that has only just started.
func TestUninstallationUnderTwoLeaders(t *testing.T) {
	t.Parallel()
	const hold = "test.example.com/hold"
	i := uninstalling(t, 2)
	held := sti("uninstall/held", of("uninstall"), tcp(7000), finalizer(hold))
	i.create(held)
	i.programmed(held)
	heldClass, heldPool := streamClass("held", "uninstall", hostNetwork), addressPool("held", []string{"203.0.113.0/24"})
	heldClass.Finalizers, heldPool.Finalizers = []string{hold}, []string{hold}
	i.create(heldClass, heldPool)
	i.classHas(heldClass, v1beta1.ConditionProgrammed, "True Programmed")
	heldClaim := &v1beta1.EdgeClaim{}
	heldClaim.Name = "stream.uninstall.tcp.7000"
	edit(i.fixture, heldClaim, func(c *v1beta1.EdgeClaim) { c.Finalizers = []string{hold} })

	was, writes := i.doors(), len(i.toDoors())
	for _, kind := range kinds[:4] {
		i.mustKubectl("", "delete", "crd", definition(kind), "--wait=false")
	}
	i.eventually("all others to vanish", func() error {
		left, err := i.kubectl("", "get", "-A", "-o", "name", strings.Join(kinds[:4], ","))
		return errors.Join(err, is(len(strings.Fields(left)), 4))
	})
	first := leader(i.fixture, i.Replicas...)
	must(i.fixture, first.Terminate())
	next := leader(i.fixture, others(i.Replicas, first)...)
	i.asksForKinds()
	last, err := i.StartReplica(t.Context())
	must(i.fixture, err)
	must(i.fixture, next.Terminate())
	leader(i.fixture, last)
	i.asksForKinds()
	i.unchanged(was, writes)
	i.says(last, leaves, 1)

	for _, object := range []client.Object{held, heldClass, heldPool, heldClaim} {
		edit(i.fixture, object, func(o client.Object) { o.SetFinalizers(nil) })
	}
	for _, kind := range kinds[:4] {
		i.mustKubectl("", "wait", "crd", definition(kind), "--for=delete", "--timeout="+patience.String())
	}
	i.asksForKinds()
	i.unchanged(was, writes)
	i.says(last, leaves, 1)
	i.calm(last)
}
