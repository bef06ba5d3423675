package integration

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// setLike is a ListenerSet that looks as if Portcullis had written it for a class, with a listener for a namespace.
func setLike(class *v1beta1.StreamIngressClass, label, ns, name string, ports ...int32) *gatewayv1.ListenerSet {
	var listeners []stream.Listener
	for _, port := range ports {
		listeners = append(listeners, stream.Listener{Port: stream.PortKey{Protocol: TCP, Port: port}, Namespace: ns})
	}
	set := &gatewayv1.ListenerSet{Spec: stream.ListenerSetSpec(*class.Spec.Gateway, listeners)}
	set.Namespace, set.Name, set.Labels = ns, name, map[string]string{v1beta1.LabelClass: label}
	return set
}

// TestGatewayAgainstTenants has a tenant who may write ListenerSets and routes in a namespace of its own forge those of a class.
func TestGatewayAgainstTenants(t *testing.T) {
	w := gateways(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	class := gatewayClass("besieged")
	w.create(class, namespace("besieged-a"), namespace("besieged-b"), service("besieged-a/web", port("http", 80)),
		service("besieged-b/web", port("http", 80)))
	w.newGateway(class, "192.0.2.12")
	s := sti("besieged-a/s", of("besieged"), tcp(5432))
	w.create(s)
	w.programmed(s)
	asPortcullis := client.FieldOwner(stream.FieldManager)

	t.Log("forged listeners go, of this class and of some that there are not, and keep nobody waiting")
	w.mustCreate(asPortcullis, setLike(class, "besieged", "besieged-b", "forged", 5432))
	const forged = 60
	for i := range forged {
		w.mustCreate(asPortcullis, setLike(class, fmt.Sprintf("nowhere-%d", i), "besieged-b", fmt.Sprintf("forged-%d", i), 5432, 5433, 5434))
	}
	another := sti("besieged-a/another", of("besieged"), tcp(5433))
	w.create(another)
	w.programmed(another)
	w.eventually("the forged listeners to be gone", func() error {
		var list gatewayv1.ListenerSetList
		if err := w.Client.List(t.Context(), &list, client.InNamespace("besieged-b")); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d are left: %w", len(list.Items), err)
		}
		return nil
	})
	w.routes(class, TCP, 5432, "besieged-a", "web:80")

	t.Log("a forged route goes, one that is honest stays, and the victim's is as it was")
	route := func(ns, name string) *gatewayv1.TCPRoute {
		r := stream.Route{
			Port: stream.PortKey{Protocol: TCP, Port: 5432}, Key: types.NamespacedName{Namespace: ns, Name: name},
			Set: types.NamespacedName{Namespace: class.Spec.Gateway.Namespace, Name: "besieged-0"}, Service: "web", ServicePort: 80,
		}
		return r.Object().(*gatewayv1.TCPRoute)
	}
	forgedRoute, honest := route("besieged-b", "besieged-tcp-5432"), route("besieged-b", "besieged-tcp-5433")
	forgedRoute.Labels, honest.Labels = map[string]string{v1beta1.LabelClass: "besieged"}, map[string]string{v1beta1.LabelClass: "besieged"}
	w.mustCreate(asPortcullis, forgedRoute)
	w.create(honest)
	w.eventually("the forged route to be gone", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(forgedRoute), &gatewayv1.TCPRoute{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	w.get(honest)
	w.routes(class, TCP, 5432, "besieged-a", "web:80")
	w.routes(class, TCP, 5433, "besieged-a", "web:80")

	t.Log("a route that is kept by a finalizer keeps no port from the next who wants it")
	kept := &gatewayv1.TCPRoute{}
	kept.Namespace, kept.Name = "besieged-a", "besieged-tcp-5433"
	edit(w, kept, func(r *gatewayv1.TCPRoute) { r.Finalizers = []string{"example.com/keeps"} })
	w.delete(another)
	w.heldBy("besieged", TCP, 5433, "")
	w.delete(honest)
	rival := sti("besieged-b/rival", of("besieged"), tcp(5433))
	w.create(rival)
	w.programmed(rival)
	w.routes(class, TCP, 5433, "besieged-b", "web:80")
	edit(w, kept, func(r *gatewayv1.TCPRoute) { r.Finalizers = nil })
}

// mustCreate creates objects with some options.
func (w *fixture) mustCreate(option client.CreateOption, objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		must(w, w.Client.Create(w.t.Context(), object, option))
	}
}

// TestGatewayRefusals has the API server, the Gateway's controller and the owner of an upstream's namespace each refuse what a stream needs.
func TestGatewayRefusals(t *testing.T) {
	w := gateways(t, harness.Options{Replicas: 1})
	class := gatewayClass("refusing")
	w.create(class, namespace("refusing-a"), service("refusing-a/web", port("http", 80)))
	w.newGateway(class, "192.0.2.13")
	older := &gatewayv1.ListenerSet{}
	older.Namespace, older.Name = class.Spec.Gateway.Namespace, "others"
	older.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: gatewayv1.ObjectName(class.Spec.Gateway.Name)}
	older.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "a", Port: 7100, Protocol: gatewayv1.TCPProtocolType}}
	w.create(older)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")

	t.Log("listeners that a policy does not let in keep no others waiting")
	const listenerSets = `
    resourceRules:
    - {apiGroups: [gateway.networking.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [listenersets]}`
	lift := w.forbids("no-7777", listenerSets, "!object.spec.listeners.exists(l, l.port == 7777)", "not this port")
	forbidden := func() error {
		return w.Client.Create(t.Context(), setLike(class, "refusing", class.Spec.Gateway.Namespace, "tried", 7777), client.DryRunAll)
	}
	w.eventually("the policy to hold", func() error { return saysAll(fmt.Sprint(forbidden()), "not this port") })
	streams := []*v1beta1.StreamIngress{}
	for i := range 3 {
		streams = append(streams, sti(fmt.Sprintf("refusing-a/s-%d", i), of("refusing"), tcp(7776+int32(i))))
		w.create(streams[i])
	}
	w.programmed(streams[0], streams[2])
	w.has(streams[1], v1beta1.ConditionProgrammed, "False RouteRefused")
	mustContain(t, messageOf(streams[1].Status.Conditions, v1beta1.ConditionProgrammed), "not this port")
	w.classHas(class, v1beta1.ConditionProgrammed, "False RouteRefused")
	lift()
	w.eventually("the policy to hold no longer", forbidden)
	w.delete(streams[2]) // the class is looked at
	w.programmed(streams[1])

	t.Log("nor do those that a webhook of an administrator's forbids, while others go and lead elsewhere")
	lift = w.forbidsAs(metav1.StatusReasonForbidden, "no-7781", listenerSets, "!object.spec.listeners.exists(l, l.port == 7781)", "no 7781")
	w.eventually("the policy to hold", func() error {
		return saysAll(fmt.Sprint(w.Client.Create(t.Context(), setLike(class, "refusing", class.Spec.Gateway.Namespace, "tried", 7781), client.DryRunAll)),
			"no 7781")
	})
	forbiddenStream, next := sti("refusing-a/forbidden", of("refusing"), tcp(7781)), sti("refusing-a/next", of("refusing"), tcp(7782))
	w.create(forbiddenStream, next)
	w.has(forbiddenStream, v1beta1.ConditionProgrammed, "False RouteRefused")
	w.programmed(next)
	w.delete(next)
	w.routes(class, TCP, 7782, "refusing-a", "")
	w.heldBy("refusing", TCP, 7782, "")
	lift()

	t.Log("a route of the name that a stream needs is its owner's")
	theirs := &gatewayv1.TCPRoute{}
	theirs.Namespace, theirs.Name = "refusing-a", "refusing-tcp-6000"
	theirs.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "mine", Kind: ptr.To(gatewayv1.Kind("Gateway"))}}
	theirs.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: []gatewayv1.BackendRef{{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: ptr.To(int32(80))},
	}}}}
	w.create(theirs)
	named := sti("refusing-a/named", of("refusing"), tcp(6000))
	w.create(named)
	w.has(named, v1beta1.ConditionProgrammed, "False RouteNameTaken")
	w.get(theirs)
	w.delete(theirs)
	edit(w, named, func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Service = "other" })
	edit(w, named, func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Service = "web" })
	w.programmed(named)

	t.Log("a listener that somebody older edits to the port of a stream has it, and the stream says who that is")
	edit(w, older, func(set *gatewayv1.ListenerSet) { set.Spec.Listeners[0].Port = 7776 })
	w.has(streams[0], v1beta1.ConditionProgrammed, "False ListenerConflicted")
	mustContain(t, messageOf(streams[0].Status.Conditions, v1beta1.ConditionProgrammed), "ListenerSet gw-refusing/others")
	edit(w, older, func(set *gatewayv1.ListenerSet) { set.Spec.Listeners[0].Port = 7100 })
	w.programmed(streams[0])
}
