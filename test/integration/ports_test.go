package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

func TestRefusalOfAHeldPort(t *testing.T) {
	e := shared(t).newEdge("held", autoAssign(20000, 20010))
	e.create(namespace("held-a"), namespace("held-b"))
	incumbent := sti("held-a/first", of("held"), tcp(5432))
	e.create(incumbent, sti("held-a/next", of("held"), tcp(5433)))
	e.programmed(incumbent, sti("held-a/next"))

	held := claimOn("held", TCP, 5432)
	e.get(held)
	words := []string{`Duplicate value: "TCP/5432"`, "held by StreamIngress held-a/first since " + held.CreationTimestamp.UTC().Format(time.RFC3339),
		`on class "held"`, `free for namespace "held-b" nearby: 5430, 5431, 5434`, "or leave listen out to be given a port"}
	status := e.toldOf(sti("held-b/rival", of("held"), tcp(5432)), words...)
	if status.Code != 422 || status.Reason != metav1.StatusReasonInvalid {
		t.Errorf("got %d %s", status.Code, status.Reason)
	}
	if status.Details == nil || len(status.Details.Causes) != 1 {
		t.Fatalf("want one cause, got %+v", status.Details)
	}
	if d := status.Details; d.Kind != "StreamIngress" || d.Name != "rival" || d.Group != v1beta1.GroupName {
		t.Errorf("the refusal is about %+v", d)
	}
	cause := status.Details.Causes[0]
	if cause.Field != "spec.listen" || cause.Type != metav1.CauseTypeFieldValueDuplicate {
		t.Errorf("got the cause %s %s", cause.Type, cause.Field)
	}
	mustContain(t, cause.Message, words...)

	t.Log("moving there is refused with the same words, and changes nothing")
	mover := sti("held-b/mover", of("held"), tcp(6000))
	e.create(mover)
	e.programmed(mover)
	e.eventually("the same words", func() error {
		moved := e.refusal(tryEdit(e.fixture, sti("held-b/mover"), tcp(5432)))
		return is(moved.Status().Details.Causes[0].Message, strings.ReplaceAll(cause.Message, "held-b/rival", "held-b/mover"))
	})
	e.leads(TCP, 6000, "held-b/web:80")

	t.Log("the proxy's own ports are held by its Service")
	e.heldBy("held", TCP, 443, "Service edge-held/proxy")
	e.toldOf(sti("held-b/https", of("held"), tcp(443)), "held by Service edge-held/proxy since", `nearby: 441, 442, 444`)

	t.Log("the refusal comes through kubectl in full")
	e.eventually("the same words from kubectl", func() error {
		out, failure := e.kubectl(`{apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1, kind: StreamIngress, metadata: {name: k, namespace: held-b},
spec: {className: held, listen: 5432, upstream: {service: a, port: 1}}}`, "create", "-f", "-")
		if failure == nil {
			t.Fatalf("kubectl create succeeded: %s", out)
		}
		return saysAll(out, `The StreamIngress "k" is invalid: spec.listen: `+strings.ReplaceAll(cause.Message, "held-b/rival", "held-b/k"))
	})
}

func TestMovingToAnotherPort(t *testing.T) {
	e := shared(t).newEdge("moving")
	e.create(namespace("moving"))
	s := sti("moving/s", of("moving"), tcp(100))
	e.create(s)
	e.leads(TCP, 100, "moving/web:80")
	edit(e.fixture, s, tcp(101))
	e.leads(TCP, 101, "moving/web:80")
	e.leads(TCP, 100, "closed")
	e.heldBy("moving", TCP, 100, "")
	e.programmed(s)
	if s.Status.Listen != 101 {
		t.Errorf("status.listen is %d", s.Status.Listen)
	}
}

func TestReservedPorts(t *testing.T) {
	e := shared(t).newEdge("reserved", reserved(8181, 0), reserved(10245, 10247), reserved(442, 442), autoAssign(10244, 10248))
	e.create(namespace("reserved"))
	for _, number := range []int32{8181, 10245, 10247, 442} {
		err := e.refusal(e.try(sti("reserved/s", of("reserved"), tcp(number))))
		mustContain(t, err.Error(), fmt.Sprintf("spec.listen: Invalid value: %d", number), `class "reserved" reserves this port for itself`, "nearby: ")
	}
	err := e.refusal(e.try(sti("reserved/s", of("reserved"), udp(10246))))
	mustContain(t, err.Error(), "nearby: 10243, 10244, 10248;")

	t.Log("nothing reserved is drawn")
	e.create(sti("reserved/a", of("reserved"), auto(TCP)), sti("reserved/b", of("reserved"), auto(TCP)))
	full := e.refusal(e.try(sti("reserved/c", of("reserved"), auto(TCP))))
	mustContain(t, full.Error(), `the autoAssign range 10244-10248 of class "reserved" has no free TCP port left for namespace "reserved"`)
	e.create(sti("reserved/d", of("reserved"), auto(UDP)))
}

func TestAllowRules(t *testing.T) {
	e := shared(t).newEdge("allow", allow(5000, 5010, "team=a"), allow(53, 53, "", UDP), allow(6000, 6001, "team=b", TCP), autoAssign(4990, 5001))
	e.create(namespace("allow-a", "team=a"), namespace("allow-b", "team=b"), namespace("allow-c"))
	e.create(sti("allow-a/tcp", of("allow"), tcp(5000)), sti("allow-a/udp", of("allow"), udp(5010)))
	e.create(sti("allow-c/dns", of("allow"), udp(53)), sti("allow-b/tcp", of("allow"), tcp(6000)))
	e.leads(TCP, 5000, "allow-a/web:80")
	e.leads(UDP, 53, "allow-c/web:80")

	for key, test := range map[string]struct {
		option streamOption
		says   string
	}{
		"allow-a/below":    {tcp(4999), `does not give TCP/4999 to namespace "allow-a"; free for namespace "allow-a" nearby: 5001, 5002, 5003`},
		"allow-a/above":    {tcp(5011), `does not give TCP/5011 to namespace "allow-a"; free for namespace "allow-a" nearby: 5008, 5009, 5010`},
		"allow-a/dns":      {tcp(53), `does not give TCP/53 to namespace "allow-a"`},
		"allow-b/udp":      {udp(6001), `does not give UDP/6001 to namespace "allow-b"`},
		"allow-b/others":   {tcp(5001), `does not give TCP/5001 to namespace "allow-b"; free for namespace "allow-b" nearby: 6001`},
		"allow-c/nothing":  {tcp(5001), `no port of this class is free for namespace "allow-c"`},
		"allow-c/dns2":     {udp(53), `held by StreamIngress allow-c/dns`},
		"allow-b/undrawn":  {auto(TCP), `has no free TCP port left for namespace "allow-b"`},
		"allow-c/undrawn2": {auto(TCP), `has no free TCP port left for namespace "allow-c"`},
	} {
		e.toldOf(sti(key, of("allow"), test.option), test.says)
	}

	t.Log("a drawn port is one of those that the namespace may have")
	drawn := sti("allow-a/drawn", of("allow"), auto(TCP))
	e.create(drawn)
	e.programmed(drawn)
	if drawn.Status.Listen != 5001 {
		t.Errorf("drew %d, and only 5001 is free", drawn.Status.Listen)
	}

	t.Log("a label gives a namespace its ports")
	c := namespace("allow-c")
	edit(e.fixture, c, func(ns *corev1.Namespace) { ns.Labels = map[string]string{"team": "a"} })
	e.eventually("the label to count", func() error { return e.try(sti("allow-c/now", of("allow"), tcp(5002))) })
}

func TestAutomaticPorts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	e := w.newEdge("auto", autoAssign(20000, 20099))
	e.create(namespace("auto"))
	var streams []*v1beta1.StreamIngress
	ports := map[string]int32{}
	for i := range 8 {
		streams = append(streams, sti(fmt.Sprintf("auto/s%d", i), of("auto"), auto(TCP)))
	}
	for _, s := range streams {
		e.create(s)
	}
	e.programmed(streams...)
	taken := map[int32]bool{}
	for _, s := range streams {
		number := s.Status.Listen
		if number < 20000 || number > 20099 || taken[number] {
			t.Errorf("%s drew %d", s.Name, number)
		}
		taken[number], ports[s.Name] = true, number
		e.leads(TCP, number, "auto/web:80")
	}

	t.Log("a restart keeps every port")
	if err := w.Replicas[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := sti("auto/fresh", of("auto"), auto(TCP))
	e.create(fresh)
	e.programmed(append(streams, fresh)...)
	for _, s := range streams {
		if s.Status.Listen != ports[s.Name] {
			t.Errorf("%s had %d before the restart and has %d", s.Name, ports[s.Name], s.Status.Listen)
		}
	}

	t.Log("a stream that is created anew gets its port again")
	again := streams[3]
	e.delete(again)
	e.heldBy("auto", TCP, ports[again.Name], "")
	// A replica that has not seen the claim go draws another port. Left are those of seven streams, of fresh, and the Service's.
	e.eventually("the replica to know that the port is free", func() error {
		return is(e.metric(`portcullis_claims{scope="stream/auto"}`), 7+1+2)
	})
	again = sti("auto/"+again.Name, of("auto"), auto(TCP))
	e.create(again)
	e.programmed(again)
	if again.Status.Listen != ports[again.Name] {
		t.Errorf("%s had %d and has %d", again.Name, ports[again.Name], again.Status.Listen)
	}

	t.Log("naming the port that was drawn, and leaving it out again, changes nothing")
	edit(w, again, tcp(ports[again.Name]))
	e.programmed(again)
	edit(w, again, auto(TCP))
	e.programmed(again)
	if again.Status.Listen != ports[again.Name] {
		t.Errorf("moved from %d to %d", ports[again.Name], again.Status.Listen)
	}
	udpStream := sti("auto/udp", of("auto"), auto(UDP))
	e.create(udpStream)
	e.programmed(udpStream)
}

func TestAutomaticPortsWithoutARange(t *testing.T) {
	e := shared(t).newEdge("norange")
	e.create(namespace("norange"))
	err := e.refusal(e.try(sti("norange/s", of("norange"), auto(TCP))))
	mustContain(t, err.Error(), "spec.listen: Required value", `class "norange" has no autoAssign range`)
	if strings.Contains(err.Error(), "nearby") {
		t.Errorf("nothing is near a port that was not named: %v", err)
	}
	only := streamClass("tcponly", "edge-norange")
	only.Spec.UDPConfigMap, only.Spec.TCPConfigMap.Name, only.Spec.Service = nil, "tcponly", nil
	e.create(only)
	e.eventually("the class to be seen", func() error { return e.try(sti("norange/t", of("tcponly"), tcp(1))) })
	unsupported := e.refusal(e.try(sti("norange/u", of("tcponly"), udp(1))))
	mustContain(t, unsupported.Error(), "spec.protocol", `class "tcponly" has no UDP ports`)
}
