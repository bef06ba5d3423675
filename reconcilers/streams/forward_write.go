package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// write writes what differs. A port that was begun is finished at once: in a burst, one that waited for its own Service to be shown
// would wait behind all those that are begun meanwhile.
func (r *forwardReconciler) write(ctx context.Context, d *door, addresses []netip.Addr, mirrored stream.Mirrored) (err error) {
	if d.service == nil {
		if d.service, err = r.place(ctx, streamService(d, addresses)); err != nil {
			return err
		}
		r.clusterIPs.given(d.at)
	}
	if addresses = servedBy(d.service, addresses); len(addresses) == 0 && len(stream.ClassAddresses(d.class)) > 0 {
		return r.removeService(ctx, d.service) // its first family can't be changed, and it is made again
	}
	// The door is open already: that something else can't be changed must not keep it leading where Pods have been.
	if err := r.writeMirrors(ctx, d, mirrored); err != nil {
		return err
	}
	next := d.service.DeepCopy()
	shape(d, next, stream.ClassAddresses(d.class))
	if !equality.Semantic.DeepEqual(next, d.service) {
		return write.Change(ctx, r.Writer, d.service, next)
	}
	ingress := ingressOf(addresses)
	if equality.Semantic.DeepEqual(d.service.Status.LoadBalancer.Ingress, ingress) {
		return nil
	}
	next.Status.LoadBalancer = corev1.LoadBalancerStatus{Ingress: ingress}
	_, err = write.ChangeStatus(ctx, r.Writer, d.service, next)
	return err
}

// place makes the Service where nothing is, and returns it as it is stored. Whoever has another of that name there by now keeps it.
func (r *forwardReconciler) place(ctx context.Context, apply *corev1ac.ServiceApplyConfiguration) (*corev1.Service, error) {
	if err := r.Writer.Apply(ctx, apply, write.AsOwner[0]); err != nil {
		return nil, err
	}
	stored, err := runtime.DefaultUnstructuredConverter.ToUnstructured(apply)
	if err != nil {
		return nil, err
	}
	svc := &corev1.Service{}
	return svc, runtime.DefaultUnstructuredConverter.FromUnstructured(stored, svc)
}

// streamService is the Service of a port.
func streamService(d *door, addresses []netip.Addr) *corev1ac.ServiceApplyConfiguration {
	svc := &corev1.Service{}
	shape(d, svc, addresses)
	port := svc.Spec.Ports[0]
	spec := corev1ac.ServiceSpec().WithType(svc.Spec.Type).WithLoadBalancerClass(*svc.Spec.LoadBalancerClass).
		WithAllocateLoadBalancerNodePorts(false).WithExternalTrafficPolicy(svc.Spec.ExternalTrafficPolicy).
		WithIPFamilyPolicy(*svc.Spec.IPFamilyPolicy).WithIPFamilies(svc.Spec.IPFamilies...).
		WithPorts(corev1ac.ServicePort().WithName(port.Name).WithProtocol(port.Protocol).WithPort(port.Port).WithTargetPort(port.TargetPort))
	return corev1ac.Service(d.key.Name, d.key.Namespace).WithLabels(svc.Labels).WithSpec(spec)
}

// shape gives a Service what is ours of it, and leaves all else. It has no selector, so that nobody but Portcullis says which
// endpoints it has, and no node ports, of which there are few.
func shape(d *door, svc *corev1.Service, addresses []netip.Addr) {
	if svc.Labels == nil {
		svc.Labels = map[string]string{}
	}
	svc.Labels[v1beta1.LabelClass] = d.class.Name
	spec := &svc.Spec
	spec.Type, spec.LoadBalancerClass, spec.Selector = corev1.ServiceTypeLoadBalancer, ptr.To(v1beta1.StreamLoadBalancerClass), nil
	spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	if d.class.Spec.ExternalTrafficPolicy == v1beta1.ExternalTrafficLocal {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	port := corev1.ServicePort{
		Name: d.port.Name(), Protocol: corev1.Protocol(d.port.Protocol), Port: d.port.Port, TargetPort: intstr.FromInt32(d.port.Port),
	}
	if len(spec.Ports) == 1 {
		port.NodePort = spec.Ports[0].NodePort // none, unless there were some before, and the API server gives them back by itself
	}
	spec.Ports = []corev1.ServicePort{port}
	shapeFamilies(spec, addresses)
}

// shapeFamilies gives a Service the IP families of its addresses, as far as the cluster has them. The first one can't be changed, and
// while there is no address all stay.
func shapeFamilies(spec *corev1.ServiceSpec, addresses []netip.Addr) {
	policy := corev1.IPFamilyPolicySingleStack
	if len(addresses) > 1 {
		policy = corev1.IPFamilyPolicyPreferDualStack
	}
	if len(spec.IPFamilies) == 0 && len(addresses) == 1 {
		spec.IPFamilies = []corev1.IPFamily{addresspool.FamilyOf(addresses[0])}
	}
	if spec.IPFamilyPolicy == nil || len(addresses) > 1 {
		spec.IPFamilyPolicy = &policy
	}
}

// servedBy are those of some addresses whose IP family a Service has. A cluster need not have all that a pool has addresses of.
func servedBy(svc *corev1.Service, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(ip netip.Addr) bool {
		return !slices.Contains(svc.Spec.IPFamilies, addresspool.FamilyOf(ip))
	})
}

// mirroredFor are the EndpointSlices whose IP family a Service has: no others are forwarded to.
func mirroredFor(svc *corev1.Service, mirrored stream.Mirrored) []discoveryv1.EndpointSlice {
	return slices.DeleteFunc(slices.Clone(mirrored.Slices), func(s discoveryv1.EndpointSlice) bool {
		return !slices.Contains(svc.Spec.IPFamilies, corev1.IPFamily(s.AddressType))
	})
}

// ingressOf are addresses as the status of a Service lists them.
func ingressOf(addresses []netip.Addr) []corev1.LoadBalancerIngress {
	var ingress []corev1.LoadBalancerIngress
	for _, ip := range addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
	}
	return ingress
}

// writeMirrors writes the EndpointSlices of a port that differ, those that come before those that go, so that no endpoint is missing
// meanwhile. One that can't be written keeps no other from following the upstream.
func (r *forwardReconciler) writeMirrors(ctx context.Context, d *door, mirrored stream.Mirrored) error {
	stored, err := r.View.Streams.Mirrors(ctx, d.key)
	if err != nil {
		return err
	}
	all := mirroredFor(d.service, mirrored)
	var failed, refused []error
	for i := range all {
		wanted := &all[i]
		at := slices.IndexFunc(stored, func(s discoveryv1.EndpointSlice) bool { return s.Name == wanted.Name })
		if at < 0 {
			err = r.createMirror(ctx, d, wanted)
		} else {
			err = r.changeMirror(ctx, d, &stored[at], wanted)
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("writing EndpointSlice %s/%s: %w", d.key.Namespace, wanted.Name, err)
		if errors.Is(err, errTaken) || write.IsRefusal(err) {
			refused = append(refused, err)
		} else {
			failed = append(failed, err)
		}
	}
	isStale := func(s discoveryv1.EndpointSlice) bool {
		return !slices.ContainsFunc(all, func(w discoveryv1.EndpointSlice) bool { return w.Name == s.Name })
	}
	stale := slices.DeleteFunc(stored, func(s discoveryv1.EndpointSlice) bool { return !isStale(s) })
	failed = append(failed, r.removeMirrors(ctx, stale))
	return cmp.Or(errors.Join(failed...), errors.Join(refused...)) // what may succeed next time is not left alone for what was refused
}

// createMirror makes an EndpointSlice. The garbage collector takes it away with its Service.
func (r *forwardReconciler) createMirror(ctx context.Context, d *door, wanted *discoveryv1.EndpointSlice) error {
	slice := wanted.DeepCopy()
	slice.Namespace = d.key.Namespace
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: d.key.Name, discoveryv1.LabelManagedBy: kube.MirrorManager}
	slice.OwnerReferences = ofService(d)
	err := write.Create(ctx, r.Writer, slice)
	if apierrors.IsAlreadyExists(err) {
		return r.replaceMirror(ctx, d, client.ObjectKeyFromObject(slice), err)
	}
	return err
}

// replaceMirror takes away an EndpointSlice of ours that somebody has taken the label off, or has labeled for another Service. It returns
// taken, the error that says that it is there, and upon which the port is looked at again, as when the cache only does not show it yet;
// errTaken if it is somebody else's.
func (r *forwardReconciler) replaceMirror(ctx context.Context, d *door, key client.ObjectKey, taken error) error {
	var list discoveryv1.EndpointSliceList
	named := client.MatchingFields{metav1.ObjectNameField: key.Name}
	if err := r.Live.List(ctx, &list, client.InNamespace(key.Namespace), named); err != nil || len(list.Items) == 0 {
		return cmp.Or(err, taken)
	}
	found := &list.Items[0]
	switch {
	case kube.IsMirror(found) && found.Labels[discoveryv1.LabelServiceName] == d.key.Name:
		return taken
	case metav1.IsControlledBy(found, d.service):
		return cmp.Or(write.Remove(ctx, r.Writer, found), taken)
	default:
		return fmt.Errorf("%w %s", errTaken, key)
	}
}

// ofService is the owner of what is written for a port.
func ofService(d *door) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Service", Name: d.service.Name, UID: d.service.UID, Controller: ptr.To(true),
	}}
}

// changeMirror changes an EndpointSlice that differs, or is of a Service of that name that is gone. Its address type can't be changed.
func (r *forwardReconciler) changeMirror(ctx context.Context, d *door, stored, wanted *discoveryv1.EndpointSlice) error {
	if kube.MirrorDigest(stored) == stream.SliceDigest(wanted) && metav1.IsControlledBy(stored, d.service) {
		return nil
	}
	if stored.AddressType != wanted.AddressType {
		return write.Remove(ctx, r.Writer, stored) // its end brings the port back here
	}
	next := stored.DeepCopy()
	next.Endpoints, next.Ports, next.OwnerReferences = wanted.Endpoints, wanted.Ports, ofService(d)
	return write.Change(ctx, r.Writer, stored, next)
}

func (r *forwardReconciler) removeMirrors(ctx context.Context, stale []discoveryv1.EndpointSlice) error {
	var errs []error
	for i := range stale {
		errs = append(errs, write.Remove(ctx, r.Writer, &stale[i]))
	}
	return errors.Join(errs...)
}

func (r *forwardReconciler) removeService(ctx context.Context, svc *corev1.Service) error {
	if svc.DeletionTimestamp != nil {
		return nil
	}
	return write.Remove(ctx, r.Writer, svc)
}

// failed reports what the API server has refused to write; all else is tried again.
func (r *forwardReconciler) failed(d *door, err error) (reconcile.Result, error) {
	if errors.Is(err, errTaken) {
		return r.refused.refuse(d, v1beta1.ReasonServiceNameTaken,
			"the stream needs an EndpointSlice of a name that somebody else's has: "+err.Error())
	}
	if !write.IsRefusal(err) {
		return reconcile.Result{}, err
	}
	if write.OutOfNodePorts(err.Error()) {
		return r.refused.refuse(d, v1beta1.ReasonNodePortsExhausted,
			"the cluster has no node port left for the health check of the stream's Service: "+err.Error())
	}
	if outOfClusterIPs(err) {
		if again := r.clusterIPs.exhausted(d.at); again > 0 {
			return reconcile.Result{RequeueAfter: again}, nil
		}
		return r.refused.refuse(d, v1beta1.ReasonClusterIPsExhausted,
			"the cluster has no cluster IP left for the Service of the stream: "+err.Error())
	}
	return r.refused.refuse(d, v1beta1.ReasonServiceRefused, fmt.Sprintf("Service %s: %s", d.key, err))
}
