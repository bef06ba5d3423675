package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// reaches waits until the Service of a stream's outside upstream, owned by the stream, sends traffic to a host and port
// in the cluster's ways: an external name, or an EndpointSlice with the address.
func (e *edge) reaches(s *v1beta1.StreamIngress, want string) {
	e.t.Helper()
	e.eventually(s.Name+" to reach "+want, func() error {
		got, err := e.reached(s)
		if err != nil {
			return err
		}
		return is(got, want)
	})
}

// reached is the host and port behind the Service of a stream's outside upstream; "nothing" without a Service.
func (e *edge) reached(s *v1beta1.StreamIngress) (string, error) {
	svc := service(s.Namespace + "/" + s.UpstreamService())
	err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(svc), svc)
	var slices discoveryv1.EndpointSliceList
	if err := e.Client.List(e.t.Context(), &slices, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name}); err != nil {
		return "", err
	}
	switch {
	case apierrors.IsNotFound(err) && len(slices.Items) == 0:
		return "nothing", nil
	case err != nil:
		return "", err
	case !metav1.IsControlledBy(svc, s) || len(svc.Spec.Ports) != 1:
		return "", fmt.Errorf("not a Service of the stream: %+v", svc)
	case svc.Spec.Type == corev1.ServiceTypeExternalName && len(slices.Items) == 0:
		return fmt.Sprintf("%s %s:%d", svc.Spec.Ports[0].Protocol, svc.Spec.ExternalName, svc.Spec.Ports[0].Port), nil
	case svc.Spec.Type == corev1.ServiceTypeClusterIP && len(slices.Items) == 1:
		return address(s, svc, &slices.Items[0])
	default:
		return "", fmt.Errorf("a Service of type %s with %d slices", svc.Spec.Type, len(slices.Items))
	}
}

// address is where a Service with one EndpointSlice leads to.
func address(s *v1beta1.StreamIngress, svc *corev1.Service, slice *discoveryv1.EndpointSlice) (string, error) {
	switch {
	case !metav1.IsControlledBy(slice, s) || len(slice.Endpoints) != 1 || len(slice.Ports) != 1:
		return "", fmt.Errorf("not a slice of the stream: %+v", slice)
	case !slices.Contains(svc.Spec.IPFamilies, corev1.IPFamily(slice.AddressType)):
		return "", fmt.Errorf("kube-proxy ignores %s endpoints of a Service of %v", slice.AddressType, svc.Spec.IPFamilies)
	case *slice.Ports[0].Name != svc.Spec.Ports[0].Name || *slice.Ports[0].Port != svc.Spec.Ports[0].Port || svc.Spec.ClusterIP == "":
		return "", fmt.Errorf("the ports %+v are not those of %+v", slice.Ports, svc.Spec)
	}
	return fmt.Sprintf("%s %s:%d", *slice.Ports[0].Protocol, slice.Endpoints[0].Addresses[0], *slice.Ports[0].Port), nil
}

func TestOutsideUpstreams(t *testing.T) {
	e := shared(t).newEdge("outside")
	e.create(namespace("outside"), service("outside/web", port("http", 80)))
	s := sti("outside/ldap", of("outside"), tcp(636), outside("ldap.example.com", 636))
	e.create(s)
	e.reaches(s, "TCP ldap.example.com:636")
	e.leads(TCP, 636, "outside/sti-ldap:636")
	e.programmed(s)
	e.has(s, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")

	for _, step := range []struct {
		to    streamOption
		want  string
		leads string
	}{
		{outside("ldap2.example.com", 636), "TCP ldap2.example.com:636", "outside/sti-ldap:636"},
		{outside("192.0.2.10", 636), "TCP 192.0.2.10:636", "outside/sti-ldap:636"},
		{outside("192.0.2.11", 637), "TCP 192.0.2.11:637", "outside/sti-ldap:637"},
		{outside("2001:db8::10", 636), "TCP 2001:db8::10:636", "outside/sti-ldap:636"},
		{outside("192.0.2.12", 636), "TCP 192.0.2.12:636", "outside/sti-ldap:636"},
		{outside("ldap.example.com", 636), "TCP ldap.example.com:636", "outside/sti-ldap:636"},
		{outside("2001:db8::11", 636), "TCP 2001:db8::11:636", "outside/sti-ldap:636"},
	} {
		edit(e.fixture, s, step.to)
		e.reaches(s, step.want)
		e.leads(TCP, 636, step.leads)
	}
	e.programmed(s)

	t.Log("what is deleted or changed by hand is set right")
	svc := service("outside/sti-ldap")
	e.delete(svc)
	e.reaches(s, "TCP 2001:db8::11:636")
	edit(e.fixture, svc, func(s *corev1.Service) { s.Spec.Ports[0].Port = 1 })
	e.reaches(s, "TCP 2001:db8::11:636")
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "outside", Name: "sti-ldap"}}
	e.delete(slice)
	e.reaches(s, "TCP 2001:db8::11:636")
	edit(e.fixture, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "2001:db8::bad" })
	e.reaches(s, "TCP 2001:db8::11:636")

	t.Log("back inside, nothing is left")
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) {
		s.Spec.IsService = new(true)
		to("web", "http")(s)
	})
	e.leads(TCP, 636, "outside/web:80")
	probe := s.DeepCopy()
	probe.Spec.IsService = new(false)
	e.reaches(probe, "nothing")

	t.Log("and outside again, by UDP")
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) {
		udp(636)(s)
		outside("192.0.2.20", 514)(s)
	})
	e.reaches(s, "UDP 192.0.2.20:514")
	e.leads(UDP, 636, "outside/sti-ldap:514")
	e.leads(TCP, 636, "closed")
}

func TestOutsideUpstreamWhoseNameIsTaken(t *testing.T) {
	e := shared(t).newEdge("taken")
	theirs := service("taken/sti-s", port("", 80))
	e.create(namespace("taken"), theirs)
	s := sti("taken/s", of("taken"), tcp(700), outside("192.0.2.1", 80))
	e.create(s)
	e.has(s, v1beta1.ConditionResolvedRefs, "False BackendNameTaken")
	e.has(s, v1beta1.ConditionAccepted, "True Accepted")
	e.has(s, v1beta1.ConditionProgrammed, "False UnresolvedRefs")
	if got := e.answers(TCP, 700); got != "closed" {
		t.Errorf("the traffic goes to somebody else's Service: %s", got)
	}
	e.get(theirs)
	if len(theirs.OwnerReferences) > 0 || len(theirs.Spec.Ports) != 1 || theirs.Spec.Ports[0].Port != 80 {
		t.Errorf("somebody else's Service was changed: %+v", theirs)
	}
	e.delete(theirs)
	e.reaches(s, "TCP 192.0.2.1:80")
	e.leads(TCP, 700, "taken/sti-s:80")
	e.programmed(s)
}

func TestOutsideUpstreamsOfLongNames(t *testing.T) {
	e := shared(t).newEdge("long")
	e.create(namespace("long"))
	for i, name := range []string{
		"a.name.with.dots", "123", "a-name-that-is-longer-than-a-service-may-be-called-in-any-namespace-at-all",
	} {
		s := sti("long/"+name, of("long"), tcp(int32(800+i)), outside("192.0.2.1", 80))
		e.create(s)
		e.reaches(s, "TCP 192.0.2.1:80")
		e.leads(TCP, int32(800+i), "long/"+s.UpstreamService()+":80")
	}
}
