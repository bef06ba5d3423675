package integration

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// isExact waits until everything is exactly as the streams want it: all claims of the cluster, all Services and EndpointSlices in the
// namespace of the class, and the status of every stream.
func (s *storm) isExact() {
	s.t.Helper()
	s.eventually("what the kernel forwards to be exact", s.exactly)
}

// exactly says what is not as it should be, nil when everything is.
func (s *storm) exactly() error {
	streams := &v1beta1.StreamIngressList{}
	if err := s.Client.List(s.t.Context(), streams); err != nil {
		return err
	}
	want := &expected{holders: map[string]*v1beta1.StreamIngress{}}
	for i := range streams.Items {
		want.add(&streams.Items[i])
	}
	for _, refused := range want.refused {
		want.wrong = append(want.wrong, fmt.Errorf("%s/%s is refused, and nobody else asks for its port", refused.Namespace, refused.Name))
	}
	err := errors.Join(s.claimsAre(want), s.doorsAre(want))
	return errors.Join(errors.Join(want.wrong...), err)
}

// claimsAre compares the whole ledger: one claim for a stream, and one for the port of the address that the class shares.
func (s *storm) claimsAre(want *expected) error {
	claims := &v1beta1.EdgeClaimList{}
	if err := s.Client.List(s.t.Context(), claims); err != nil {
		return err
	}
	held, wanted := map[string]string{}, map[string]string{}
	for i := range claims.Items {
		held[claims.Items[i].Name] = claims.Items[i].Spec.HeldBy
	}
	ip := netip.MustParseAddr(s.address)
	for name, stream := range want.holders {
		wanted[name] = claim.StreamHolder(stream.Namespace, stream.Name).String()
		door := claim.AddressPort(ip, string(stream.ProtocolOrDefault()), stream.Status.Listen)
		wanted[door.Name()] = claim.ClassHolder(s.class.Name).String()
	}
	return same("the ledger", held, wanted)
}

// doorsAre compares the Services and the EndpointSlices in the namespace of the class.
func (s *storm) doorsAre(want *expected) error {
	var services corev1.ServiceList
	var mirrors discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &mirrors} {
		if err := s.Client.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
	}
	open, uids := map[string]string{}, map[string]types.UID{}
	for i := range services.Items {
		svc := &services.Items[i]
		open[svc.Name], uids[svc.Name] = doorText(svc), svc.UID
	}
	leads := map[string]string{}
	for i := range mirrors.Items {
		m := &mirrors.Items[i]
		name := m.Labels[discoveryv1.LabelServiceName]
		text := mirrorText(m)
		if owner := metav1.GetControllerOf(m); owner == nil || owner.UID != uids[name] || !kube.IsMirror(m) {
			text = "not of this Service: " + text
		}
		leads[name] = joined(leads[name], text)
	}
	upstreams, err := s.upstreams()
	if err != nil {
		return err
	}
	wantedOpen, wantedLeads := map[string]string{}, map[string]string{}
	for _, stream := range want.holders {
		protocol, number := stream.ProtocolOrDefault(), stream.Status.Listen
		name := v1beta1.StreamServiceName(s.class.Name, protocol, number)
		wantedOpen[name] = fmt.Sprintf("%s %d %s-%d at %s", protocol, number, strings.ToLower(string(protocol)), number, s.address)
		for _, to := range upstreams[stream.UpstreamNamespace()+" "+string(protocol)] {
			wantedLeads[name] = joined(wantedLeads[name], fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), number)+to)
		}
		if got := strings.Join(stream.Status.Addresses, " "); got != s.address {
			want.wrong = append(want.wrong, fmt.Errorf("%s/%s has the addresses %q", stream.Namespace, stream.Name, got))
		}
	}
	return errors.Join(same("the Services", open, wantedOpen), same("the EndpointSlices", leads, wantedLeads))
}

// doorText is what a Service opens where, and whatever else it should not have.
func doorText(svc *corev1.Service) string {
	var texts []string
	for _, p := range svc.Spec.Ports {
		texts = append(texts, fmt.Sprintf("%s %d %s", p.Protocol, p.Port, p.Name))
		if p.NodePort != 0 {
			texts = append(texts, "on the nodes")
		}
	}
	texts = append(texts, "at")
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		texts = append(texts, ingress.IP)
	}
	if !kube.IsForwarded(svc) || len(svc.Spec.Selector) > 0 || svc.DeletionTimestamp != nil {
		texts = append(texts, "not the Service of a stream")
	}
	return strings.Join(texts, " ")
}

// upstreams are what is to be mirrored for a stream to each namespace, "namespace protocol", but for the name of the port: of every
// EndpointSlice of the upstream the endpoints that are Pods.
func (s *storm) upstreams() (map[string][]string, error) {
	var pods corev1.PodList
	var all discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&pods, &all} {
		if err := s.Client.List(s.t.Context(), list); err != nil {
			return nil, err
		}
	}
	alive := map[types.UID]string{}
	for i := range pods.Items {
		alive[pods.Items[i].UID] = pods.Items[i].Status.PodIP
	}
	upstreams := map[string][]string{}
	for i := range all.Items {
		slice := &all.Items[i]
		if slice.Labels[discoveryv1.LabelServiceName] != "web" {
			continue
		}
		slice.Endpoints = slices.DeleteFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.TargetRef == nil || alive[e.TargetRef.UID] != e.Addresses[0]
		})
		for _, p := range slice.Ports {
			for i := range slice.Endpoints {
				slice.Endpoints[i].TargetRef = nil // the target is not in the namespace of the mirror
			}
			if len(slice.Endpoints) > 0 {
				key := slice.Namespace + " " + string(*p.Protocol)
				upstreams[key] = append(upstreams[key], endpointsText(slice, p))
			}
		}
	}
	return upstreams, nil
}

// mirrorText is what a mirror says.
func mirrorText(mirror *discoveryv1.EndpointSlice) string {
	if len(mirror.Ports) != 1 {
		return fmt.Sprintf("%d ports", len(mirror.Ports))
	}
	return *mirror.Ports[0].Name + endpointsText(mirror, mirror.Ports[0])
}

// endpointsText is the number of a port, and all that an EndpointSlice says of its endpoints.
func endpointsText(slice *discoveryv1.EndpointSlice, p discoveryv1.EndpointPort) string {
	endpoints := slices.SortedFunc(slices.Values(slice.Endpoints), func(a, b discoveryv1.Endpoint) int {
		return cmp.Compare(a.Addresses[0], b.Addresses[0])
	})
	text, err := json.Marshal(endpoints)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(" %s %s %d %s", slice.AddressType, *p.Protocol, *p.Port, text)
}

// joined adds a text to others, in order.
func joined(all, text string) string {
	texts := append(strings.Split(all, "; "), text)
	slices.Sort(texts)
	return strings.TrimPrefix(strings.Join(texts, "; "), "; ")
}

// isSilent waits until nothing that has to do with the class was written for a while, not even without a change.
func (s *storm) isSilent(quiet time.Duration) {
	s.t.Helper()
	since, last := time.Now(), ""
	s.eventually(fmt.Sprintf("no writes for %v", quiet), func() error {
		now, err := s.state()
		if err != nil {
			return err
		}
		if now != last {
			since, last = time.Now(), now
		}
		return is(time.Since(since) > quiet, true)
	})
}

// state is how much Portcullis has written, and the versions of everything that a class without a proxy has.
func (s *storm) state() (string, error) {
	versions := []string{fmt.Sprint(len(s.writes()))}
	for _, kind := range []string{"v1/Service", "discovery.k8s.io/v1/EndpointSlice"} {
		listed, err := s.versionsOf(kind, client.InNamespace(s.namespace))
		if err != nil {
			return "", err
		}
		versions = append(versions, listed...)
	}
	for _, kind := range []string{"StreamIngress", "StreamIngressClass", "EdgeClaim", "AddressPool"} {
		listed, err := s.versionsOf(v1beta1.GroupVersion.String() + "/" + kind)
		if err != nil {
			return "", err
		}
		versions = append(versions, listed...)
	}
	return strings.Join(versions, " "), nil
}

// versionsOf lists objects of a kind, as "group/version/kind" says, with their versions.
func (s *storm) versionsOf(kind string, options ...client.ListOption) (versions []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	at := strings.LastIndex(kind, "/")
	list.APIVersion, list.Kind = kind[:at], kind[at+1:]+"List"
	if err := s.Client.List(s.t.Context(), list, options...); err != nil {
		return nil, err
	}
	for i := range list.Items {
		o := &list.Items[i]
		versions = append(versions, fmt.Sprintf("%s:%s/%s:%s", list.Kind, o.Namespace, o.Name, o.ResourceVersion))
	}
	return versions, nil
}
