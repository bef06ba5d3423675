package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/plugin"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// importer is somebody who may read everything.
const importer = "importer"

// TestPluginImport has a proxy with 500 entries, imports them, and applies what that writes: each becomes its stream's, and at no version
// of a ConfigMap, or of the Service in front, is one missing or another.
func TestPluginImport(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.grantReads(importer, "", "*")
	p := w.proxyWithEntries(500)
	status, manifests, errOut := w.plugin(importer, "import", "--only", "streams", "--class", "import", "--proxy-namespace", "import-proxy")
	if status != plugin.ExitFine {
		t.Fatalf("import ended with %d: %s\n%s", status, errOut, manifests)
	}
	mustContain(t, errOut, "501 manifests, 0 things to decide")
	h := newHistory(t, w.Harness, func() moment { return p }, &corev1.ConfigMapList{}, &corev1.ServiceList{})
	w.mustKubectl(manifests, "apply", "-f", "-")
	w.eventually("all to be their streams'", func() error { return errors.Join(w.adoptedAll(500), p.isOurs(w)) })
	h.mustHold(w)

	t.Log("applied or imported again, it changes nothing")
	w.eventually("the Service in front to be the class's", func() error {
		front := service("import-proxy/front")
		w.get(front)
		return is(front.Labels[v1beta1.LabelClass], "import")
	})
	before := p.versions(w)
	if out := w.mustKubectl(manifests, "apply", "-f", "-"); strings.Count(out, " unchanged\n") != 501 {
		t.Errorf("applied again, it says:\n%s", out)
	}
	status, again, errOut := w.plugin(importer, "import", "--only", "streams", "--class", "import")
	if status != plugin.ExitFine || strings.Contains(again, "kind:") {
		t.Errorf("import again ended with %d: %s\n%s", status, errOut, again)
	}
	mustContain(t, again, "450 entries of ConfigMap import-proxy/tcp", "50 entries of ConfigMap import-proxy/udp", "taken over already")
	must(w, is(p.versions(w), before))

	t.Log("an entry is its stream's for good")
	gone := sti("import-a/import-tcp-20000")
	w.delete(gone)
	w.eventually("the entry to go", func() error {
		cm := configMap("import-proxy/tcp", nil)
		w.get(cm)
		return is(cm.Data["20000"], "")
	})
}

// importedProxy is a proxy whose entries are imported, and at once what is right of it at any moment.
type importedProxy struct {
	// entries are those of each ConfigMap.
	entries map[client.ObjectKey]map[string]string
	front   *corev1.Service
	now     map[client.ObjectKey]client.Object
}

// proxyWithEntries makes a proxy as the chart of ingress-nginx does, with entries that lead to two namespaces in all ways of writing them.
func (w *fixture) proxyWithEntries(n int) *importedProxy {
	w.t.Helper()
	p := &importedProxy{front: service("import-proxy/front", port("http", 80), port("https", 443)), now: map[client.ObjectKey]client.Object{}}
	p.front.Spec.Type, p.front.Spec.Selector = corev1.ServiceTypeLoadBalancer, map[string]string{"app": "import-proxy"}
	p.front.Spec.AllocateLoadBalancerNodePorts = new(false)
	tcp, udp := configMap("import-proxy/tcp", map[string]string{}), configMap("import-proxy/udp", map[string]string{})
	for i := range n {
		number, in := int32(20000+i), []string{"import-a", "import-b"}[i%2]
		to := in + "/db:" + []string{"5432", "sql", "5432:PROXY", "sql::PROXY", "5432:PROXY:PROXY"}[i%5]
		if i%10 == 9 {
			udp.Data[stream.Key(number)] = in + "/db:dns"
			p.front.Spec.Ports = append(p.front.Spec.Ports, port(fmt.Sprintf("udp-%d", number), number, UDP))
			continue
		}
		tcp.Data[stream.Key(number)] = to
		p.front.Spec.Ports = append(p.front.Spec.Ports, port(fmt.Sprintf("tcp-%d", number), number))
	}
	p.entries = map[client.ObjectKey]map[string]string{client.ObjectKeyFromObject(tcp): tcp.Data, client.ObjectKeyFromObject(udp): udp.Data}
	labels := map[string]string{"app": "import-proxy"}
	w.create(namespace("import-proxy"), namespace("import-a"), namespace("import-b"), tcp, udp, p.front,
		service("import-a/db", port("sql", 5432), port("dns", 53, UDP)), service("import-b/db", port("sql", 5432), port("dns", 53, UDP)),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "import-proxy", Name: "controller"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "controller", Image: "registry.k8s.io/ingress-nginx/controller:v1.13.0", Args: []string{
					"/nginx-ingress-controller", "--publish-service=$(POD_NAMESPACE)/front",
					"--tcp-services-configmap=$(POD_NAMESPACE)/tcp", "--udp-services-configmap=$(POD_NAMESPACE)/udp",
				},
			}}}},
		}})
	return p
}

// adoptedAll says whether so many streams have their port, and have taken over an entry for it.
func (w *fixture) adoptedAll(n int) error {
	var streams v1beta1.StreamIngressList
	var claims v1beta1.EdgeClaimList
	if err := errors.Join(w.Client.List(w.t.Context(), &streams), w.Client.List(w.t.Context(), &claims)); err != nil {
		return err
	}
	adopted := map[string]bool{}
	for i := range claims.Items {
		if entry, _, _ := claim.Adopted(&claims.Items[i]); entry != nil {
			adopted[claim.HolderOf(&claims.Items[i]).String()] = true
		}
	}
	for i := range streams.Items {
		s := &streams.Items[i]
		key := client.ObjectKeyFromObject(s)
		for _, kind := range []string{v1beta1.ConditionAccepted, v1beta1.ConditionResolvedRefs, v1beta1.ConditionProgrammed} {
			if !strings.HasPrefix(condition(s.Status.Conditions, kind), "True ") {
				return fmt.Errorf("%s: %s is %q", key, kind, condition(s.Status.Conditions, kind))
			}
		}
		if !adopted["StreamIngress "+key.String()] {
			return fmt.Errorf("%s has taken over nothing", key)
		}
	}
	return is(len(streams.Items), n)
}

// isOurs says whether Portcullis has written all entries.
func (p *importedProxy) isOurs(w *fixture) error {
	for key, entries := range p.entries {
		cm := configMap(key.String(), nil)
		w.get(cm)
		current, err := stream.Entries(cm)
		if err != nil || len(current.Ours) != len(entries) {
			return fmt.Errorf("%d entries of %d are ours: %w", len(current.Ours), len(entries), err)
		}
	}
	return nil
}

// versions are those of the ConfigMaps, and of the Service.
func (p *importedProxy) versions(w *fixture) string {
	tcp, udp, front := configMap("import-proxy/tcp", nil), configMap("import-proxy/udp", nil), service("import-proxy/front")
	w.get(tcp, udp, front)
	return strings.Join([]string{tcp.ResourceVersion, udp.ResourceVersion, front.ResourceVersion}, " ")
}

func (p *importedProxy) apply(e happening) []client.ObjectKey {
	key := client.ObjectKeyFromObject(e.stored)
	if key.Namespace != "import-proxy" {
		return nil
	}
	if p.now[key] = e.stored; e.gone {
		delete(p.now, key)
	}
	return []client.ObjectKey{key}
}

func (p *importedProxy) everybody() []client.ObjectKey {
	return []client.ObjectKey{{Namespace: "import-proxy", Name: "tcp"}, {Namespace: "import-proxy", Name: "udp"}, client.ObjectKeyFromObject(p.front)}
}

func (p *importedProxy) check(key client.ObjectKey) error {
	switch now := p.now[key].(type) {
	case *corev1.ConfigMap:
		for port, entry := range p.entries[key] {
			if now.Data[port] != entry {
				return fmt.Errorf("ConfigMap %s has %q for port %s, not %q", key, now.Data[port], port, entry)
			}
		}
	case *corev1.Service:
		for _, want := range p.front.Spec.Ports {
			if !slices.ContainsFunc(now.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == want.Port && p.Protocol == want.Protocol }) {
				return fmt.Errorf("Service %s has no port %s/%d", key, want.Protocol, want.Port)
			}
		}
	case nil:
		return fmt.Errorf("%s is gone", key)
	}
	return nil
}

func (p *importedProxy) around([]happening, int, client.ObjectKey) string { return "" }

// TestPluginImportAddresses imports MetalLB's pools under 200 Services that have addresses of theirs, some of them shared, and has
// Portcullis take over: at no version does a Service list another address, and who comes late is elsewhere.
func TestPluginImportAddresses(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	w.grantReads(importer, "", "*")
	w.metalLB()
	served := w.servedByMetalLB()
	stays := balancer("import-b/stays", func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/other") })
	w.create(stays)
	w.gives(stays, "192.0.2.250")

	status, manifests, errOut := w.plugin(importer, "import")
	if status != plugin.ExitFindings {
		t.Fatalf("import ended with %d: %s\n%s", status, errOut, manifests)
	}
	mustContain(t, manifests, "200 Services without a loadBalancerClass", "name: public-shared", "# TODO: 192.0.2.250 is left out", "Service import-b/stays has")
	h := newHistory(t, w.Harness, func() moment { return served }, &corev1.ServiceList{})
	replica, err := w.StartReplica(t.Context(), "--default-load-balancer", "--claim-grace="+grace.String())
	must(w, err)
	late := []*corev1.Service{balancer("import-a/late-0", classless), balancer("import-a/late-1")}
	for _, svc := range late {
		w.admitted(svc)
	}
	w.mustKubectl(manifests, "apply", "-f", "-")
	w.eventually("all to be in the ledger", func() error { return served.claimed(w) })
	for _, svc := range late {
		w.eventually(svc.Name+" to be served", func() error {
			w.get(svc)
			return is(len(svc.Status.LoadBalancer.Ingress), 1)
		})
		ip := addressOf(svc)
		if ip == "192.0.2.250" {
			t.Errorf("%s is served at the address that stays with another controller", svc.Name)
		}
		for key, has := range served.at {
			if has == ip {
				t.Errorf("%s is served at %s, which was that of %s", svc.Name, ip, key)
			}
		}
	}
	if addressOf(late[0]) == addressOf(late[1]) {
		t.Errorf("two are served at %s", addressOf(late[0]))
	}
	w.balances(stays, "192.0.2.250 VIP")
	h.mustHold(w)

	t.Log("applied and imported again, it changes nothing")
	if out := w.mustKubectl(manifests, "apply", "-f", "-"); strings.Count(out, " unchanged\n") != 3 {
		t.Errorf("applied again, it says:\n%s", out)
	}
	_, again, errOut := w.plugin(importer, "import", "--only", "pools")
	must(w, is(len(kindsIn(w, again)), 3))
	if strings.Contains(again, "something else") {
		t.Errorf("imported again, it says %s\n%s", errOut, again)
	}
	must(w, replica.Terminate())
}

// kindsIn are the kinds of the objects in a stream of YAML documents.
func kindsIn(w *fixture, text string) (kinds []string) {
	w.t.Helper()
	objects, err := controlplane.Decode(strings.NewReader(text))
	must(w, err)
	for _, u := range objects {
		kinds = append(kinds, u.GetKind())
	}
	return kinds
}

// metalLB makes two pools of MetalLB.
func (w *fixture) metalLB() {
	w.t.Helper()
	const text = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ipaddresspools.metallb.io}
spec:
  group: metallb.io
  scope: Namespaced
  names: {kind: IPAddressPool, listKind: IPAddressPoolList, plural: ipaddresspools, singular: ipaddresspool}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: metallb-system}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {namespace: metallb-system, name: public}
spec: {addresses: [192.0.2.0/24]}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {namespace: metallb-system, name: reserve}
spec: {addresses: [198.51.100.0-198.51.100.99], autoAssign: false, serviceAllocation: {namespaces: [import-b]}}
`
	objects, err := controlplane.Decode(strings.NewReader(text))
	must(w, err)
	w.eventually("the pools of MetalLB", func() error {
		return controlplane.Apply(w.t.Context(), w.Config(), "test", objects...)
	})
}

// servedMoment is where Services are, and where each has to be at any moment.
type servedMoment struct {
	at map[client.ObjectKey]string
	// shared are the ports of those that share their address.
	shared map[client.ObjectKey]int32
	now    map[client.ObjectKey]*corev1.Service
}

// servedByMetalLB makes 200 Services, and gives them addresses as MetalLB would: 40 share ten, 60 are of the pool of one namespace.
func (w *fixture) servedByMetalLB() *servedMoment {
	w.t.Helper()
	m := &servedMoment{
		at: map[client.ObjectKey]string{}, shared: map[client.ObjectKey]int32{}, now: map[client.ObjectKey]*corev1.Service{},
	}
	w.create(namespace("import-a"), namespace("import-b"))
	for i := range 200 {
		ip, options := fmt.Sprintf("192.0.2.%d", i), []balancerOption{classless}
		key := fmt.Sprintf("import-%c/svc-%d", 'a'+rune(i%2), i)
		switch {
		case i < 40:
			key, ip = fmt.Sprintf("import-a/svc-%d", i), fmt.Sprintf("192.0.2.%d", 10*(i%10))
			options = append(options, ports(port("", int32(8000+i/10))), annotated("metallb.io/allow-shared-ip", fmt.Sprintf("key-%d", i%10)))
		case i < 100:
			key, ip = fmt.Sprintf("import-b/svc-%d", i), fmt.Sprintf("198.51.100.%d", i-40)
			options = append(options, annotated("metallb.universe.tf/address-pool", "reserve"))
		case i%3 == 0:
			options = append(options, annotated("metallb.universe.tf/loadBalancerIPs", ip))
		case i%3 == 1:
			options = append(options, func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = ip })
		}
		svc := balancer(key, options...)
		w.create(svc)
		w.gives(svc, ip)
		m.at[client.ObjectKeyFromObject(svc)] = ip
		if i < 40 {
			m.shared[client.ObjectKeyFromObject(svc)] = svc.Spec.Ports[0].Port
		}
	}
	return m
}

// claimed says whether each Service holds what it lists, all ports of it where the address is shared.
func (m *servedMoment) claimed(w *fixture) error {
	var claims v1beta1.EdgeClaimList
	if err := w.Client.List(w.t.Context(), &claims); err != nil {
		return err
	}
	holders := map[string]string{}
	for i := range claims.Items {
		holders[claims.Items[i].Name] = claim.HolderOf(&claims.Items[i]).String()
	}
	for key, ip := range m.at {
		at := claim.Address(netip.MustParseAddr(ip))
		if port, is := m.shared[key]; is {
			at = claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
		}
		if err := is(holders[at.Name()], "Service "+key.String()); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func (m *servedMoment) apply(e happening) []client.ObjectKey {
	svc := e.stored.(*corev1.Service)
	key := client.ObjectKeyFromObject(svc)
	if m.at[key] == "" {
		return nil
	}
	if m.now[key] = svc; e.gone {
		delete(m.now, key)
	}
	return []client.ObjectKey{key}
}

func (m *servedMoment) everybody() (all []client.ObjectKey) {
	for key := range m.at {
		all = append(all, key)
	}
	return all
}

func (m *servedMoment) check(key client.ObjectKey) error {
	svc := m.now[key]
	if svc == nil {
		return fmt.Errorf("%s is gone", key)
	}
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	if len(listed) != 1 || listed[0].String() != m.at[key] {
		return fmt.Errorf("%s was served at %s, and is at %q", key, m.at[key], statusOf(svc))
	}
	return nil
}

func (m *servedMoment) around([]happening, int, client.ObjectKey) string { return "" }
