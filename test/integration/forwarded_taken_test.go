package integration

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// untouched fails the test if an object is not of the version that it had.
func (w *fixture) untouched(object client.Object) {
	w.t.Helper()
	before := object.GetResourceVersion()
	w.get(object)
	if err := is(object.GetResourceVersion(), before); err != nil {
		w.t.Errorf("%T %s was written: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// TestForwardedUnderATakenName has somebody else's objects bear the names that a stream needs.
func TestForwardedUnderATakenName(t *testing.T) {
	w := shared(t)
	class := kernelClass("squatted", "squatted")
	foreign := service("squatted/"+v1beta1.StreamServiceName("squatted", TCP, 80), port("tcp-80", 80))
	own, another := pod("squatted-a/web-0"), pod("squatted-a/web-1")
	w.create(namespace("squatted"), namespace("squatted-a"), service("squatted-a/web", port("http", 80)), own, another, foreign,
		addressPool("squatted", []string{"198.18.64.32/30"}, onRequest), class)
	w.runs(own, "10.9.1.1")
	w.runs(another, "10.9.1.2")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	first, second := sliceOf("squatted-a/web-x", "web", "http", 8080, endpoint("10.9.1.1", own)), sliceOf("squatted-a/web-y", "web", "http", 8080)
	s, other := sti("squatted-a/s", of("squatted"), tcp(80)), sti("squatted-a/other", of("squatted"), tcp(81))
	w.create(first, s, other)

	t.Log("a Service of that name stays as it is, and keeps no other stream from being open")
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceNameTaken")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "squatted/"+foreign.Name, "delete it")
	w.classHas(class, v1beta1.ConditionProgrammed, "False ServiceNameTaken")
	w.forwards("squatted", TCP, 81, "198.18.64.32 -> 10.9.1.1:8080")
	w.programmed(other)
	w.untouched(foreign)
	w.delete(foreign)
	w.forwards("squatted", TCP, 80, "198.18.64.32 -> 10.9.1.1:8080")
	w.programmed(s)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")

	t.Log("an EndpointSlice of that name does, too, and the others still follow the upstream")
	squatter := w.squat("squatted", v1beta1.StreamServiceName("squatted", TCP, 80))
	edit(w, first, func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = []discoveryv1.Endpoint{endpoint("10.9.1.2", another)}
	})
	w.eventually("the door to lead elsewhere", func() error {
		got, err := w.forwarded("squatted", TCP, 81)
		return firstOf(err, is(got, "198.18.64.32 -> 10.9.1.2:8080"))
	})
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceNameTaken")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "EndpointSlice", squatter.Name)
	w.create(second)
	edit(w, second, func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{endpoint("10.9.1.1", own)} })
	w.forwards("squatted", TCP, 81, "198.18.64.32 -> 10.9.1.1:8080,10.9.1.2:8080")
	w.forwards("squatted", TCP, 80, "198.18.64.32 -> 10.9.1.1:8080")
	w.untouched(squatter)
	w.delete(squatter)
	w.forwards("squatted", TCP, 80, "198.18.64.32 -> 10.9.1.1:8080,10.9.1.2:8080")
	w.programmed(s)

	t.Log("one of ours that is labeled for another Service is made anew")
	var mirrors discoveryv1.EndpointSliceList
	must(w, w.Client.List(t.Context(), &mirrors, client.InNamespace("squatted"),
		client.MatchingLabels{discoveryv1.LabelServiceName: v1beta1.StreamServiceName("squatted", TCP, 80)}))
	for i := range mirrors.Items {
		edit(w, &mirrors.Items[i], func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "somebody-elses" })
	}
	w.forwards("squatted", TCP, 80, "198.18.64.32 -> 10.9.1.1:8080,10.9.1.2:8080")
	w.programmed(s)
}

// firstOf is the first of some errors.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// squat puts an EndpointSlice of nobody's in the place of the one that a Service of a stream has.
func (w *fixture) squat(namespace, service string) *discoveryv1.EndpointSlice {
	w.t.Helper()
	squatter := &discoveryv1.EndpointSlice{}
	w.eventually("the place of an EndpointSlice to be taken", func() error {
		var list discoveryv1.EndpointSliceList
		labels := client.MatchingLabels{discoveryv1.LabelServiceName: service}
		if err := w.Client.List(w.t.Context(), &list, client.InNamespace(namespace), labels); err != nil {
			return err
		}
		for i := range list.Items {
			*squatter = discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
			squatter.Namespace, squatter.Name = namespace, list.Items[i].Name
			squatter.Endpoints = []discoveryv1.Endpoint{}
			w.delete(&list.Items[i])
		}
		return w.Client.Create(w.t.Context(), squatter) // Portcullis may have been faster
	})
	return squatter
}

// TestForwardedWithoutANamespace has the namespace of a class be made later, and go and come back.
func TestForwardedWithoutANamespace(t *testing.T) {
	w := shared(t)
	class := kernelClass("nowhere", "nowhere")
	w.create(namespace("nowhere-a"), service("nowhere-a/web", port("http", 80)),
		addressPool("nowhere", []string{"198.18.64.36/30"}, onRequest), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := sti("nowhere-a/s", of("nowhere"), tcp(80))
	w.create(s)
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), `namespaces "nowhere" not found`)
	w.classHas(class, v1beta1.ConditionProgrammed, "False ServiceRefused")
	w.heldBy("nowhere", TCP, 80, "StreamIngress nowhere-a/s")
	w.create(namespace("nowhere"))
	w.forwards("nowhere", TCP, 80, "198.18.64.36 -> ")
	w.programmed(s)

	t.Log("the namespace is deleted: nothing can be made there, and the port stays the stream's")
	w.delete(namespace("nowhere"))
	w.delete(service("nowhere/" + v1beta1.StreamServiceName("nowhere", TCP, 80)))
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "being terminated")
	w.forwards("nowhere", TCP, 80, "closed")
	w.gone("nowhere")
	w.heldBy("nowhere", TCP, 80, "StreamIngress nowhere-a/s")
	w.create(namespace("nowhere"))
	w.forwards("nowhere", TCP, 80, "198.18.64.36 -> ")
	w.programmed(s)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
}

// gone ends the deletion of a namespace that is empty, as its controller would.
func (w *fixture) gone(name string) {
	w.t.Helper()
	c, err := kubernetes.NewForConfig(w.Config())
	must(w, err)
	w.eventually("the namespace to be gone", func() error {
		ns, err := c.CoreV1().Namespaces().Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		ns.Spec.Finalizers = nil
		if _, err = c.CoreV1().Namespaces().Finalize(w.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
			return client.IgnoreNotFound(err)
		}
		return is("there", "gone")
	})
}

// TestForwardedWhileItsClassGoes deletes a class, and a stream of it whose Service can't go yet: its door is open, and its port stays its
// own. A tenant makes a Service that looks as that of another stream, which keeps nothing.
func TestForwardedWhileItsClassGoes(t *testing.T) {
	w := shared(t)
	class := kernelClass("parting", "parting")
	lingers, goes := sti("parting-a/lingers", of("parting"), tcp(80)), sti("parting-a/goes", of("parting"), tcp(81))
	w.create(namespace("parting"), namespace("parting-a"), service("parting-a/web", port("http", 80)),
		addressPool("parting", []string{"198.18.64.52"}, onRequest, sharesPorts), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.create(lingers, goes)
	w.forwards("parting", TCP, 80, "198.18.64.52 -> ")
	w.forwards("parting", TCP, 81, "198.18.64.52 -> ")
	door := service("parting/parting-tcp-80")
	edit(w, door, func(svc *corev1.Service) { svc.Finalizers = []string{"test.example.com/hold"} })
	forged := service("parting-a/parting-tcp-81", port("x", 81))
	forged.Labels, forged.Finalizers = map[string]string{v1beta1.LabelClass: "parting"}, []string{"test.example.com/hold"}
	forged.Spec.Type, forged.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.StreamLoadBalancerClass)
	w.create(forged)

	w.delete(class, lingers, goes)
	w.forwards("parting", TCP, 81, "closed")
	w.heldBy("parting", TCP, 81, "")
	w.heldBy("parting", TCP, 80, "StreamIngress parting-a/lingers")
	w.pointHeldBy(claim.AddressPort(netip.MustParseAddr("198.18.64.52"), "TCP", 80).Name(), "StreamIngressClass parting")
	for _, svc := range []*corev1.Service{door, forged} {
		edit(w, svc, func(svc *corev1.Service) { svc.Finalizers = nil })
	}
	w.forwards("parting", TCP, 80, "closed")
	w.heldBy("parting", TCP, 80, "")
}

// TestForwardedInTwoFamilies gives a class an address of each IP family, and an upstream endpoints of one, and then of both.
func TestForwardedInTwoFamilies(t *testing.T) {
	w := shared(t)
	class := kernelClass("twostack", "twostack")
	four, six := pod("twostack-a/four"), pod("twostack-a/six")
	w.create(namespace("twostack"), namespace("twostack-a"), service("twostack-a/web", port("http", 80)), four, six,
		addressPool("twostack", []string{"198.18.64.40/30", "2001:db8:64::40/126"}, onRequest), class)
	w.runs(four, "10.9.2.1")
	w.runs(six, "fd00:9::1")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := sti("twostack-a/s", of("twostack"), tcp(80))
	slice := sliceOf("twostack-a/web-6", "web", "http", 8080, endpoint("fd00:9::1", six))
	w.create(slice, s)
	w.forwards("twostack", TCP, 80, "198.18.64.40,2001:db8:64::40 -> fd00:9::1:8080")
	w.programmed(s)
	if err := is(len(s.Status.Addresses), 2); err != nil {
		t.Error("the addresses of the stream: ", err)
	}
	w.has(s, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")

	t.Log("endpoints of the other family come, and those of the first go")
	w.create(sliceOf("twostack-a/web-4", "web", "http", 8080, endpoint("10.9.2.1", four)))
	w.forwards("twostack", TCP, 80, "198.18.64.40,2001:db8:64::40 -> 10.9.2.1:8080,fd00:9::1:8080")
	w.delete(slice)
	w.forwards("twostack", TCP, 80, "198.18.64.40,2001:db8:64::40 -> 10.9.2.1:8080")
	door := service("twostack/" + v1beta1.StreamServiceName("twostack", TCP, 80))
	w.get(door)
	if err := is(*door.Spec.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack); err != nil || len(door.Spec.ClusterIPs) != 2 {
		t.Errorf("got the cluster IPs %v: %v", door.Spec.ClusterIPs, err)
	}
}

// TestForwardedBesideAPolicy has a policy refuse changes of Services: their endpoints follow the upstream all the same.
func TestForwardedBesideAPolicy(t *testing.T) {
	w := shared(t)
	class := kernelClass("fixed", "fixed")
	own, another := pod("fixed-a/web-0"), pod("fixed-a/web-1")
	w.create(namespace("fixed"), namespace("fixed-a"), service("fixed-a/web", port("http", 80)), own, another,
		addressPool("fixed", []string{"198.18.64.44/30"}, onRequest), class)
	w.runs(own, "10.9.3.1")
	w.runs(another, "10.9.3.2")
	slice := sliceOf("fixed-a/web-x", "web", "http", 8080, endpoint("10.9.3.1", own))
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := sti("fixed-a/s", of("fixed"), tcp(80))
	w.create(slice, s)
	w.forwards("fixed", TCP, 80, "198.18.64.44 -> 10.9.3.1:8080")
	w.programmed(s)
	lift := w.forbids("services-are-fixed", `
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: fixed}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [services]}]`,
		"false", "no Service is changed here")
	door := service("fixed/" + v1beta1.StreamServiceName("fixed", TCP, 80))
	w.eventually("the policy to hold", func() error {
		w.get(door)
		door.Labels["probe"] = "1"
		return is(w.Client.Update(t.Context(), door, client.DryRunAll) != nil, true)
	})
	edit(w, class, func(c *v1beta1.StreamIngressClass) { c.Spec.ExternalTrafficPolicy = v1beta1.ExternalTrafficLocal })
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "no Service is changed here")
	edit(w, slice, func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = []discoveryv1.Endpoint{endpoint("10.9.3.2", another)}
	})
	w.forwards("fixed", TCP, 80, "198.18.64.44 -> 10.9.3.2:8080")
	w.kill(another)
	w.forwards("fixed", TCP, 80, "198.18.64.44 -> ")
	w.classHas(class, v1beta1.ConditionProgrammed, "False ServiceRefused")

	t.Log("without the policy, the change is made")
	lift()
	w.eventually("Local", func() error {
		w.get(door)
		return is(door.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyLocal)
	})
	w.programmed(s)
}

// TestForwardedThatSaysAnother has the Service of a stream say by hand that it is of another class, or another port: it is set right, and
// never taken away, as its door would be closed meanwhile.
func TestForwardedThatSaysAnother(t *testing.T) {
	w := shared(t)
	class, other := kernelClass("says", "says"), kernelClass("says-other", "says")
	own := pod("says-a/web-0")
	w.create(namespace("says"), namespace("says-other"), namespace("says-a"), service("says-a/web", port("http", 80)), own,
		addressPool("says", []string{"198.18.64.48/30"}, onRequest), class, other)
	w.runs(own, "10.9.4.1")
	s := sti("says-a/s", of("says"), tcp(80))
	w.create(sliceOf("says-a/web-x", "web", "http", 8080, endpoint("10.9.4.1", own)), s)
	w.programmed(s)
	door := service("says/" + v1beta1.StreamServiceName("says", TCP, 80))
	w.get(door)
	for range 5 {
		for _, change := range []func(*corev1.Service){
			func(svc *corev1.Service) { svc.Labels[v1beta1.LabelClass] = other.Name },
			func(svc *corev1.Service) { svc.Labels[v1beta1.LabelClass] = "nobody" },
			func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 },
		} {
			uid := door.UID
			edit(w, door, change)
			w.eventually("the Service to say what it is", func() error {
				w.get(door)
				return is(fmt.Sprint(door.Labels[v1beta1.LabelClass], " ", door.Spec.Ports[0].Port), "says 80")
			})
			if err := is(door.UID, uid); err != nil {
				t.Fatal("the Service was made again: ", err)
			}
		}
	}
	w.forwards("says", TCP, 80, "198.18.64.48 -> 10.9.4.1:8080")
}
