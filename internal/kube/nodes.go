package kube

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// IndexService finds EndpointSlices by the namespace/name of their Service.
const IndexService = "service"

// readyNode is what is kept of the conditions of a node that is ready. All cached nodes share it.
var readyNode = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}

// slimNode keeps of a node what decides whether it takes traffic: its labels, its addresses, and whether it is ready.
// Most changes of a node, its heartbeats, leave no trace.
func slimNode(node *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			DeletionTimestamp: node.DeletionTimestamp,
		},
		Status: corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			slim.Status.Conditions = readyNode
		}
	}
	return slim
}

// slimEndpointSlice keeps of an EndpointSlice on which nodes there are endpoints that are ready, and of our own what it says.
func slimEndpointSlice(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slim := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: slice.Namespace, Name: slice.Name, UID: slice.UID, ResourceVersion: slice.ResourceVersion,
		Labels: map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]},
	}}
	intern(&slim.Namespace)
	if IsOwnSlice(slice) {
		slimOwnSlice(slim, slice)
		return slim
	}
	if IsMirror(slice) {
		slim.Labels[discoveryv1.LabelManagedBy] = MirrorManager
		slim.OwnerReferences, slim.AddressType = controllerOf(&slice.ObjectMeta), slice.AddressType
		slim.Annotations = map[string]string{digestKey: digestOf(slice)}
		return slim
	}
	seen := map[string]bool{}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		node := ptr.Deref(e.NodeName, "") // outside of the cluster, for instance
		if seen[node] || !isReady(e) {
			continue
		}
		seen[node] = true
		if e.NodeName != nil {
			intern(e.NodeName)
		}
		slim.Endpoints = append(slim.Endpoints, discoveryv1.Endpoint{NodeName: e.NodeName})
	}
	return slim
}

// digestOf is the digest of a mirror that may be slim already. An informer that streams its first list slims what is in it twice: the
// second time nothing is left to compute the digest from. An annotation of that name from the API server counts for nothing: anybody
// who may write the slice can set it, but no object from there is without a creation time.
func digestOf(slice *discoveryv1.EndpointSlice) string {
	if kept := MirrorDigest(slice); kept != "" && slice.CreationTimestamp.IsZero() {
		return kept
	}
	return stream.SliceDigest(slice)
}

// slimOwnSlice keeps of an EndpointSlice with the label of ours what is compared with what it should say: one endpoint with one
// address, and one port. Anybody can set a label, so of more only the second is kept.
func slimOwnSlice(slim, slice *discoveryv1.EndpointSlice) {
	slim.Labels[discoveryv1.LabelManagedBy] = EndpointSliceManager
	slim.OwnerReferences, slim.AddressType = controllerOf(&slice.ObjectMeta), slice.AddressType
	for _, e := range slice.Endpoints[:min(2, len(slice.Endpoints))] {
		slim.Endpoints = append(slim.Endpoints, discoveryv1.Endpoint{
			NodeName: e.NodeName, Conditions: e.Conditions, Addresses: slices.Clone(e.Addresses[:min(2, len(e.Addresses))]),
		})
	}
	for _, p := range slice.Ports[:min(2, len(slice.Ports))] {
		slim.Ports = append(slim.Ports, discoveryv1.EndpointPort{Port: p.Port, Protocol: p.Protocol})
	}
}

// NodeAddresses are the addresses of the nodes of a pool that take the traffic of a Service, of its families, in
// ascending order. Those are nodes that are ready and stay; for a Service with externalTrafficPolicy Local, which keeps
// traffic on the node that it reaches, only nodes with an endpoint of it.
func (l *LoadBalancers) NodeAddresses(ctx context.Context, pool *addresspool.Pool, svc *corev1.Service) ([]netip.Addr, error) {
	var nodes corev1.NodeList
	if err := l.objects.Reader.List(ctx, &nodes); err != nil {
		return nil, err
	}
	local, err := l.localNodes(ctx, svc)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !TakesTraffic(node) || !pool.Nodes.Matches(labels.Set(node.Labels)) || local != nil && !local[node.Name] {
			continue
		}
		addresses = append(addresses, addressesOf(node, nodeAddressType(pool), svc.Spec.IPFamilies)...)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), nil
}

// IsNodeAddress says whether a node has an address, of whichever type, and whether or not it takes traffic now.
func (l *LoadBalancers) IsNodeAddress(ctx context.Context, ip netip.Addr) (bool, error) {
	return l.isAddressOf(ctx, ip, func(*corev1.Node) bool { return true })
}

// TakesTrafficAt says whether a node that takes traffic has an address, of whichever type.
func (l *LoadBalancers) TakesTrafficAt(ctx context.Context, ip netip.Addr) (bool, error) {
	return l.isAddressOf(ctx, ip, TakesTraffic)
}

func (l *LoadBalancers) isAddressOf(ctx context.Context, ip netip.Addr, counts func(*corev1.Node) bool) (bool, error) {
	var nodes corev1.NodeList
	if err := l.objects.Reader.List(ctx, &nodes); err != nil {
		return false, err
	}
	families := []corev1.IPFamily{addresspool.FamilyOf(ip)}
	return slices.ContainsFunc(nodes.Items, func(node corev1.Node) bool {
		return counts(&node) && (slices.Contains(addressesOf(&node, corev1.NodeInternalIP, families), ip) ||
			slices.Contains(addressesOf(&node, corev1.NodeExternalIP, families), ip))
	}), nil
}

// allNodeAddresses are the addresses of all nodes, of whichever type: who is served at one is so while that takes no traffic, too.
func (l *LoadBalancers) allNodeAddresses(ctx context.Context) (map[netip.Addr]bool, error) {
	var nodes corev1.NodeList
	if err := l.objects.Reader.List(ctx, &nodes); err != nil {
		return nil, err
	}
	all := map[netip.Addr]bool{}
	for i := range nodes.Items {
		for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
			for _, ip := range addressesOf(&nodes.Items[i], kind, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}) {
				all[ip] = true
			}
		}
	}
	return all, nil
}

// localNodes are the nodes that have an endpoint of a Service, nil if that does not matter.
func (l *LoadBalancers) localNodes(ctx context.Context, svc *corev1.Service) (map[string]bool, error) {
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil, nil
	}
	return l.endpointNodes(ctx, svc)
}

// HasEndpoints says whether a Service has an endpoint that is ready, on a node or elsewhere, as far as the cache knows.
func (l *LoadBalancers) HasEndpoints(ctx context.Context, svc *corev1.Service) (bool, error) {
	endpoints, err := l.endpoints(ctx, svc)
	return len(endpoints) > 0, err
}

// endpointNodes are the nodes that have an endpoint of a Service that is ready.
func (l *LoadBalancers) endpointNodes(ctx context.Context, svc *corev1.Service) (map[string]bool, error) {
	endpoints, err := l.endpoints(ctx, svc)
	local := map[string]bool{}
	for _, e := range endpoints {
		if e.NodeName != nil {
			local[*e.NodeName] = true
		}
	}
	return local, err
}

// endpoints are those of a Service that are ready.
func (l *LoadBalancers) endpoints(ctx context.Context, svc *corev1.Service) (ready []discoveryv1.Endpoint, err error) {
	var list discoveryv1.EndpointSliceList
	key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	if err := l.objects.Reader.List(ctx, &list, client.MatchingFields{IndexService: key.String()}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		for j := range list.Items[i].Endpoints {
			if e := &list.Items[i].Endpoints[j]; isReady(e) {
				ready = append(ready, *e)
			}
		}
	}
	return ready, nil
}

// isReady says whether an endpoint takes connections.
func isReady(e *discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }

// TakesTraffic says whether traffic from outside may be sent to a node.
func TakesTraffic(node *corev1.Node) bool {
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded || node.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func nodeAddressType(pool *addresspool.Pool) corev1.NodeAddressType {
	if pool.Spec.NodeAddressType == v1beta1.NodeExternalIP {
		return corev1.NodeExternalIP
	}
	return corev1.NodeInternalIP
}

func addressesOf(node *corev1.Node, kind corev1.NodeAddressType, families []corev1.IPFamily) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err != nil || a.Type != kind {
			continue
		}
		if ip = ip.Unmap(); slices.Contains(families, addresspool.FamilyOf(ip)) {
			addresses = append(addresses, ip)
		}
	}
	return addresses
}
