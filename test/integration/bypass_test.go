package integration

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// withoutWebhooks lets objects past admission until the returned function is called. Portcullis itself would put the
// configuration's CA back, not the configuration.
func (w *fixture) withoutWebhooks() (restore func()) {
	w.t.Helper()
	return w.withoutConfiguration("portcullis", sti("default/probe", of("there-is-no-such-class")), "there is no StreamIngressClass of this name")
}

// withoutConfiguration does so for one configuration of webhooks. With it, the probe is refused by a text.
func (w *fixture) withoutConfiguration(name string, probe client.Object, text string) (restore func()) {
	w.t.Helper()
	try := func() error {
		return w.Client.Create(w.t.Context(), probe.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	config := &admissionv1.ValidatingWebhookConfiguration{}
	config.Name = name
	w.get(config)
	w.delete(config)
	w.eventually("the webhooks to be out of the way", try)
	return func() {
		w.t.Helper()
		again := &admissionv1.ValidatingWebhookConfiguration{Webhooks: config.Webhooks}
		again.Name, again.Labels, again.Annotations = config.Name, config.Labels, config.Annotations
		w.create(again)
		w.eventually("the webhooks to be called again", func() error {
			err := try()
			return is(err != nil && strings.Contains(err.Error(), text), true)
		})
	}
}

// TestVerdictsWithoutAdmission: what was written while the webhooks were off meets the words that they would have said.
func TestVerdictsWithoutAdmission(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	e := w.newEdge("bypass", reserved(700, 799), allow(1, 9999, "team=a"), autoAssign(9998, 9999))
	w.create(namespace("bypass", "team=a"), namespace("bypass-c"), service("bypass-c/web", port("http", 80)))
	incumbent := sti("bypass/incumbent", of("bypass"), tcp(1000))
	w.create(incumbent, sti("bypass/drawn1", of("bypass"), auto(TCP)), sti("bypass/drawn2", of("bypass"), auto(TCP)))
	w.programmed(incumbent)
	e.known(5) // those of the Service too: a dry run tells of what the replica knows

	judged := map[string]struct {
		stream    *v1beta1.StreamIngress
		condition string
		reason    string
	}{
		"a taken port":         {sti("bypass/taken", of("bypass"), tcp(1000)), v1beta1.ConditionAccepted, "PortConflict"},
		"the proxy's port":     {sti("bypass/https", of("bypass"), tcp(443)), v1beta1.ConditionAccepted, "PortConflict"},
		"a reserved port":      {sti("bypass/reserved", of("bypass"), tcp(750)), v1beta1.ConditionAccepted, "PortReserved"},
		"a port not allowed":   {sti("bypass-c/allow", of("bypass"), tcp(1001)), v1beta1.ConditionAccepted, "PortNotAllowed"},
		"no port left":         {sti("bypass/nothing", of("bypass"), auto(TCP)), v1beta1.ConditionAccepted, "NoFreePort"},
		"no such class":        {sti("bypass/class", of("none"), tcp(1001)), v1beta1.ConditionAccepted, "ClassNotFound"},
		"no default class":     {sti("bypass/default", tcp(1001)), v1beta1.ConditionAccepted, "ClassNotFound"},
		"another's namespace":  {sti("bypass/cross", of("bypass"), tcp(1002), to("bypass-c/web", 80)), v1beta1.ConditionResolvedRefs, "RefNotPermitted"},
		"an upstream not here": {sti("bypass/missing", of("bypass"), tcp(1003), to("nothing", 80)), v1beta1.ConditionResolvedRefs, "BackendNotFound"},
	}
	said := map[string]string{}
	for name, test := range judged {
		if err := w.Client.Create(t.Context(), test.stream.DeepCopy(), client.DryRunAll); err != nil {
			said[name] = causes(err)[0].Field + ": " + causes(err)[0].Message
		}
	}
	restore := w.withoutWebhooks()
	for _, test := range judged {
		w.create(test.stream)
	}
	for name, test := range judged {
		w.has(test.stream, test.condition, "False "+test.reason)
		if got := messageOf(test.stream.Status.Conditions, test.condition); said[name] != "" && got != said[name] {
			t.Errorf("%s: admission says\n%s\nand the status says\n%s", name, said[name], got)
		}
		if test.condition == v1beta1.ConditionAccepted {
			w.has(test.stream, v1beta1.ConditionProgrammed, "False NotAccepted")
		}
	}
	w.measures(`portcullis_conflicts_total{source="reconciler"}`)
	t.Log("an edit gets no further than a creation")
	edit(w, incumbent, func(s *v1beta1.StreamIngress) { tcp(750)(s) })
	w.has(incumbent, v1beta1.ConditionAccepted, "False PortReserved")
	edit(w, incumbent, func(s *v1beta1.StreamIngress) { tcp(1000)(s) })

	t.Log("two classes of one proxy: the older one writes")
	second := streamClass("bypass2", e.namespace)
	w.create(second)
	w.classHas(second, v1beta1.ConditionAccepted, "False TargetConflict")
	mustContain(t, messageOf(second.Status.Conditions, v1beta1.ConditionAccepted), "held by StreamIngressClass bypass")
	restore()

	t.Log("with the webhooks back, the losers can be applied again as they are, and labeled")
	taken := judged["a taken port"].stream
	manifest := `{apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1, kind: StreamIngress, metadata: {name: taken, namespace: bypass},
spec: {className: bypass, listen: 1000, upstream: {service: web, port: 80}}}`
	w.mustKubectl(manifest, "apply", "-f", "-")
	w.mustKubectl(manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
	w.mustKubectl("", "label", "sti", "-n", "bypass", "--all", "a=b")
	w.recover(e, incumbent, taken, judged["a reserved port"].stream, judged["a port not allowed"].stream)
}

// recover takes away what kept each of the losers from its port.
func (w *fixture) recover(e *edge, incumbent, taken, reserved, notAllowed *v1beta1.StreamIngress) {
	w.t.Helper()
	// After the edits of before, either may have the port, or neither for a moment; the other one waits for it.
	winner, loser := incumbent, taken
	w.eventually("one of them to have the port", func() error {
		winner, loser = incumbent, taken
		if w.holder("bypass", TCP, 1000) == "StreamIngress bypass/taken" {
			winner, loser = taken, incumbent
		}
		w.get(winner, loser)
		if err := is(condition(winner.Status.Conditions, v1beta1.ConditionProgrammed), "True Programmed"); err != nil {
			return err
		}
		return saysAll(messageOf(loser.Status.Conditions, v1beta1.ConditionAccepted), "held by StreamIngress bypass/"+winner.Name)
	})
	w.programmed(winner)
	w.has(loser, v1beta1.ConditionAccepted, "False PortConflict")
	w.delete(winner)
	w.programmed(loser)
	w.heldBy("bypass", TCP, 1000, "StreamIngress bypass/"+loser.Name)

	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { c.Spec.Reserved = nil })
	w.programmed(reserved)
	edit(w, namespace("bypass-c"), func(ns *corev1.Namespace) { ns.Labels["team"] = "a" })
	w.programmed(notAllowed)
	w.create(namespace("edge-none"), streamClass("none", "edge-none", hostNetwork))
	w.programmed(sti("bypass/class"))
	w.delete(sti("bypass/drawn1"))
	w.programmed(sti("bypass/nothing"))
	w.create(grant("bypass-c/all", "bypass"))
	w.programmed(sti("bypass/cross"))
}
