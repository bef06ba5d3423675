package integration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// named has a Service name addresses in spec.externalIPs.
func named(addresses ...string) balancerOption {
	return func(svc *corev1.Service) { svc.Spec.ExternalIPs = addresses }
}

// naming is a Service without a type that names addresses; port TCP/80 unless options say otherwise.
func naming(key string, options ...balancerOption) *corev1.Service {
	svc := service(key, port("", 80))
	for _, option := range options {
		option(svc)
	}
	return svc
}

// TestGuardExternalIPs leads a life of addresses that Services name themselves.
func TestGuardExternalIPs(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("young", "team=young"), namespace("old"))
	w.create(addressPool("whole", []string{"198.18.80.0/30"}, forAll, forNamespaces("team=young")),
		addressPool("ports", []string{"198.18.80.8/30"}, forAll, sharesPorts, onRequest),
		addressPool("few", []string{"198.18.80.16/30"}, forAll, sharesPorts, onRequest, func(p *v1beta1.AddressPool) { p.Spec.MaxPerNamespace = 2 }))

	t.Log("an address of a load balancer is not to be taken, nor one that no pool gives")
	front := balancer("young/front", wants("198.18.80.1"))
	w.create(front)
	w.balances(front, "198.18.80.1 VIP TCP/80")
	w.refusedFor(w.toCreate(naming("old/thief", named("198.18.80.1"))), "spec.externalIPs[0]",
		`no AddressPool gives 198.18.80.1 to a Service like this in namespace "old"`, "it may name those of few, ports")
	w.refusedFor(w.toCreate(naming("old/thief", named("203.0.113.7"))), "spec.externalIPs[0]", "no AddressPool gives 203.0.113.7")
	w.refusedFor(w.toCreate(naming("young/thief", named("198.18.80.2", "198.18.80.1"))), "spec.externalIPs[1]",
		"all of it is held by Service young/front since 20", "free in AddressPool whole is 198.18.80.")
	w.pointHeldBy("addr.198-18-80-2.tcp.80", "")

	t.Log("who names one has its ports, and nobody is given the address beside them")
	mine := naming("young/mine", named("198.18.80.0", "198.18.80.8"))
	w.create(mine)
	w.pointHeldBy("addr.198-18-80-0.tcp.80", "Service young/mine")
	_ = w.refusedSaying(balancer("young/late", wants("198.18.80.0")), "held by Service young/mine since 20")
	next := balancer("young/next", inPool("whole"))
	w.create(next)
	w.balances(next, "198.18.80.2 VIP TCP/80")
	w.refusedFor(w.toCreate(naming("old/mine", named("198.18.80.8"))), "spec.externalIPs[0]", "port TCP/80 there is held by Service young/mine since 20",
		"choose another port", "free in AddressPool ports is 198.18.80.9")
	beside := naming("old/mine", ports(port("", 81)), named("198.18.80.8"))
	w.create(beside)
	w.refusedFor(toEdit(w, beside, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 80 }), "spec.externalIPs[0]", "held by Service young/mine")
	edit(w, beside, func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b"} })
	_ = w.refusedSaying(balancer("old/lb", wants("198.18.80.8")), "held by Service young/mine since 20")

	t.Log("a load balancer that names an address is not given that, and keeps its own")
	both := balancer("young/both", inPool("ports"), wants("198.18.80.9"), named("198.18.80.10"))
	w.create(both)
	w.balances(both, "198.18.80.9 VIP TCP/80")
	w.pointHeldBy("addr.198-18-80-10.tcp.80", "Service young/both")
	edit(w, both, named("198.18.80.9"))
	w.pointHeldBy("addr.198-18-80-10.tcp.80", "")
	edit(w, both, named())
	edit(w, both, func(svc *corev1.Service) { svc.Labels = map[string]string{"look": "again"} })
	w.balances(both, "198.18.80.9 VIP TCP/80")
	w.pointHeldBy("addr.198-18-80-9.tcp.80", "Service young/both")

	t.Log("a share each")
	w.create(naming("old/one", named("198.18.80.16", "198.18.80.17")))
	w.refusedFor(w.toCreate(naming("old/two", named("198.18.80.18"))), "spec.externalIPs[0]", "AddressPool few gives at most 2 port(s) to one namespace")
	many := naming("young/many", named("198.18.80.9"))
	for n := range 120 {
		many.Spec.Ports = append(many.Spec.Ports, port(string(rune('a'+n/26))+string(rune('a'+n%26)), int32(1000+n)))
	}
	many.Spec.Ports[0].Name = "first"
	w.refusedFor(w.toCreate(many), "spec.externalIPs", "at most 100 ports of addresses that it names")

	t.Log("what is left is free, and what Services name agrees with the ledger")
	w.delete(mine)
	w.pointHeldBy("addr.198-18-80-0.tcp.80", "")
	edit(w, beside, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 80 })
	w.pointHeldBy("addr.198-18-80-8.tcp.80", "Service old/mine")
	w.pointHeldBy("addr.198-18-80-8.tcp.81", "")
	w.agreesAtLast()
}

// TestGuardTellsOfExternalIPs lets Services that name addresses come in while no replica answers.
func TestGuardTellsOfExternalIPs(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("young", "team=young"), namespace("old"))
	w.create(addressPool("team", []string{"198.18.81.0/30"}, forAll, forNamespaces("team=young")),
		addressPool("all", []string{"198.18.81.8/30"}, forAll, sharesPorts, onRequest))
	front := balancer("young/front", wants("198.18.81.1"))
	mine := naming("young/mine", named("198.18.81.8"))
	w.create(front, mine)
	w.balances(front, "198.18.81.1 VIP TCP/80")

	must(w, w.Replicas[0].Terminate())
	thief := naming("old/thief", named("198.18.81.1", "198.18.81.8", "198.18.81.9"))
	w.eventually("a Service to come in while nobody answers", func() error { return w.try(thief) })
	time.Sleep(time.Second) // so that it is older, by the API server's clock
	w.create(naming("old/second", named("198.18.81.9")))
	_, err := w.StartReplica(t.Context())
	must(w, err)
	back := time.Now()
	w.told("Service", "thief", v1beta1.ReasonAddressNotInPool, "spec.externalIPs[0]: no AddressPool gives 198.18.81.1 to a Service like this",
		"port TCP/80 of 198.18.81.1 is held by Service young/front since 20", "take the address out of spec.externalIPs")
	w.told("Service", "thief", v1beta1.ReasonAddressConflict, "spec.externalIPs[1]: port TCP/80 of 198.18.81.8 is held by Service young/mine since 20")
	w.told("Service", "second", v1beta1.ReasonAddressConflict, "port TCP/80 of 198.18.81.9 is held by Service old/thief")
	t.Logf("told %v after a replica was ready again", time.Since(back).Round(time.Millisecond))
	w.eventually("the conflicts to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="ExternalIPs"}`), 4) })
	w.pointHeldBy("addr.198-18-81-8.tcp.80", "Service young/mine")
	w.balances(front, "198.18.81.1 VIP TCP/80")

	t.Log("who gives way is nobody's loss any longer, and who waited has it")
	edit(w, thief, named())
	w.pointHeldBy("addr.198-18-81-9.tcp.80", "Service old/second")
	w.eventually("no conflict to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="ExternalIPs"}`), 0) })
}

// TestGuardWarnsOfExternalIPs says what would be refused, and refuses nothing.
func TestGuardWarnsOfExternalIPs(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--guard=ExternalIPs=Warn"}})
	w.create(namespace("young"), namespace("old"))
	k := w.warned()
	must(w, k.Create(t.Context(), naming("old/mine", named("198.18.82.1"))))
	mustContain(t, k.said(), "portcullis would refuse this: spec.externalIPs[0]", "no AddressPool gives 198.18.82.1")
	w.pointHeldBy("addr.198-18-82-1.tcp.80", "Service old/mine") // it has the traffic
	w.told("Service", "mine", v1beta1.ReasonAddressNotInPool, "no AddressPool gives 198.18.82.1")
}

// TestGuardLetsProxiesNameNodes opens a port of a proxy whose Service names an address of the nodes, which is in no pool, as that of an
// ingress controller on bare metal does.
func TestGuardLetsProxiesNameNodes(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--guard=ExternalIPs=Warn"}})
	w.create(namespace("edge"), namespace("shop"), configMap("edge/tcp-services", nil), configMap("edge/udp-services", nil))
	proxy := service("edge/proxy", port("http", 80))
	proxy.Spec.ExternalIPs = []string{"198.18.83.1"}
	w.create(proxy, streamClass("edge", "edge"))
	w.restart((*harness.Replica).Terminate, "--claim-grace="+grace.String(), "--guard=ExternalIPs=Deny")
	w.pointHeldBy("addr.198-18-83-1.tcp.80", "Service edge/proxy")

	w.create(service("shop/db", port("sql", 5432)))
	s := sti("shop/db", to("db", 5432), func(s *v1beta1.StreamIngress) { s.Spec.ClassName, s.Spec.Listen = "edge", new(int32(7000)) })
	w.create(s)
	w.has(s, v1beta1.ConditionProgrammed, "True Programmed")
	w.pointHeldBy("addr.198-18-83-1.tcp.7000", "Service edge/proxy")
	w.refusedFor(toEdit(w, proxy, named("198.18.83.1", "198.18.83.2")), "spec.externalIPs[1]", "no AddressPool gives 198.18.83.2")
}
