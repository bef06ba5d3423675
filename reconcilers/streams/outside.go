package streams

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// currentOutside reads the Service and the EndpointSlice of the name that an outside upstream has, nil for none.
func (r *streamReconciler) currentOutside(
	ctx context.Context, si *v1beta1.StreamIngress,
) (svc *corev1.Service, slice *discoveryv1.EndpointSlice, err error) {
	key := outsideServiceOf(si)
	if svc, err = r.View.Service(ctx, key); err != nil {
		return nil, nil, err
	}
	slice = &discoveryv1.EndpointSlice{}
	if err := r.View.Reader.Get(ctx, key, slice); err != nil {
		return svc, nil, client.IgnoreNotFound(err)
	}
	return svc, slice, nil
}

// dropUnless deletes what a stream has outside that gets nothing new, unless it may stay, and is as it was written.
func (r *streamReconciler) dropUnless(ctx context.Context, si *v1beta1.StreamIngress, mayStay bool) error {
	svc, slice, err := r.currentOutside(ctx, si)
	if err != nil || mayStay && isUntouched(si, svc, slice) {
		return err
	}
	return r.dropOutside(ctx, si, svc, slice)
}

// leaving looks after what a stream that is being deleted has outside: a finalizer, which whoever writes streams can set, keeps
// the stream for as long as they like. It gets nothing new. What it has goes when leave is withdrawn, as that of any other, and
// when it is no longer as it was written, as nothing is set right any more.
func (r *streamReconciler) leaving(ctx context.Context, si *v1beta1.StreamIngress) error {
	class, _, err := r.classOf(ctx, si)
	if err != nil || class == nil {
		return err
	}
	permitted := si.Outside()
	if permitted {
		problems, err := r.consent(ctx, si, class)
		if err != nil {
			return err
		}
		permitted = len(problems) == 0
	}
	return r.dropUnless(ctx, si, permitted)
}

// outside keeps the Service, and for an IP address the EndpointSlice, of an upstream outside the cluster, and deletes
// them when the upstream is inside.
func (r *streamReconciler) outside(ctx context.Context, si *v1beta1.StreamIngress) (refusal.Problems, error) {
	if !si.Outside() {
		return nil, r.dropUnless(ctx, si, false)
	}
	key := outsideServiceOf(si)
	svc, slice, err := r.currentOutside(ctx, si)
	if err != nil {
		return nil, err
	}
	if svc, err = r.dropPredecessor(ctx, si, svc); err != nil {
		return nil, err
	}
	if slice != nil && !metav1.IsControlledBy(slice, si) {
		if err := r.dropLeft(ctx, si, slice); err != nil {
			return nil, err
		}
		slice = nil
	}
	path := field.NewPath("spec", "upstream", "host")
	taken := refusal.Problems{{Reason: v1beta1.ReasonBackendNameTaken, Err: field.Invalid(path, si.Spec.Upstream.Host, fmt.Sprintf(
		"the upstream needs a Service %s of its own, and one of that name exists that belongs to somebody else; "+
			"rename the StreamIngress or delete that Service", key))}}
	if svc != nil && !metav1.IsControlledBy(svc, si) {
		// It may be ours no longer: who writes Services can take the stream off its owners, and then opens it to the world.
		return taken, r.dropOutside(ctx, si, svc, slice)
	}
	err = r.writeOutside(ctx, si, svc, slice)
	switch {
	case errors.Is(err, errTaken):
		return taken, nil
	case err == nil || !write.IsRefusal(err):
		return nil, err
	default:
		return refusal.Problems{{Reason: v1beta1.ReasonBackendRefused, Err: field.Invalid(path, si.Spec.Upstream.Host, err.Error())}}, nil
	}
}

// errTaken says that somebody else has something of the name that is needed.
var errTaken = errors.New("the name is taken")

// dropPredecessor deletes the Service of a stream of the same name that is gone; the garbage collector would, in time.
// It returns the Service that is left, nil for none.
func (r *streamReconciler) dropPredecessor(ctx context.Context, si *v1beta1.StreamIngress, svc *corev1.Service) (*corev1.Service, error) {
	if svc == nil || !isOfPredecessor(si, svc) {
		return svc, nil
	}
	if err := write.Remove(ctx, r.Writer, svc); err != nil {
		return nil, fmt.Errorf("deleting the Service of a former StreamIngress of this name: %w", err)
	}
	return nil, nil
}

// dropLeft deletes an EndpointSlice of a stream of the same name that is gone, orphaned or not. One of somebody else stays.
func (r *streamReconciler) dropLeft(ctx context.Context, si *v1beta1.StreamIngress, slice *discoveryv1.EndpointSlice) error {
	if !isOfPredecessor(si, slice) && !isOrphaned(slice) {
		return nil
	}
	return write.Remove(ctx, r.Writer, slice)
}

// isOfPredecessor says whether an object belongs to a StreamIngress that had the name of this one.
func isOfPredecessor(si *v1beta1.StreamIngress, obj metav1.Object) bool {
	owner := metav1.GetControllerOf(obj)
	return owner != nil && owner.Kind == "StreamIngress" && owner.APIVersion == v1beta1.GroupVersion.String() &&
		owner.Name == si.Name && owner.UID != si.UID
}

// dropOutside deletes what an upstream that is no longer outside has left. The EndpointSlice goes first, as nothing can keep it; a
// finalizer can keep the Service, which leads nowhere then.
func (r *streamReconciler) dropOutside(
	ctx context.Context, si *v1beta1.StreamIngress, svc *corev1.Service, slice *discoveryv1.EndpointSlice,
) error {
	if slice != nil && metav1.IsControlledBy(slice, si) {
		if err := write.Remove(ctx, r.Writer, slice); err != nil {
			return fmt.Errorf("deleting the EndpointSlice of the former upstream: %w", err)
		}
	}
	if svc != nil && svc.DeletionTimestamp == nil && metav1.IsControlledBy(svc, si) {
		if err := write.Remove(ctx, r.Writer, svc); err != nil {
			return fmt.Errorf("deleting the Service of the former upstream: %w", err)
		}
	}
	return nil
}

// writeOutside applies what differs from what should be.
func (r *streamReconciler) writeOutside(
	ctx context.Context, si *v1beta1.StreamIngress, svc *corev1.Service, slice *discoveryv1.EndpointSlice,
) error {
	address, err := netip.ParseAddr(si.Spec.Upstream.Host)
	isAddress := err == nil
	if !isAsOutside(si, svc, isAddress) {
		if err := r.writeOutsideService(ctx, si, svc, isAddress); err != nil {
			return fmt.Errorf("writing the Service of the upstream: %w", err)
		}
	}
	addressType := discoveryv1.AddressTypeIPv4
	if address.Is6() {
		addressType = discoveryv1.AddressTypeIPv6
	}
	if slice != nil && (!isAddress || slice.AddressType != addressType) {
		// The address type can't be changed.
		if err := write.Remove(ctx, r.Writer, slice); err != nil {
			return fmt.Errorf("deleting the EndpointSlice of the former upstream: %w", err)
		}
		slice = nil
	}
	if !isAddress || isSliceOf(si, slice) {
		return nil
	}
	if err := r.writeOutsideSlice(ctx, slice, outsideSlice(si, addressType)); err != nil {
		return fmt.Errorf("applying the EndpointSlice of the upstream: %w", err)
	}
	return nil
}

// writeOutsideSlice applies by force only to the EndpointSlice that was seen to be ours.
func (r *streamReconciler) writeOutsideSlice(
	ctx context.Context, ours *discoveryv1.EndpointSlice, apply *discoveryv1ac.EndpointSliceApplyConfiguration,
) error {
	if ours == nil {
		return r.place(ctx, apply)
	}
	return r.Writer.Apply(ctx, apply.WithUID(ours.UID).WithResourceVersion(ours.ResourceVersion), write.AsOwner...)
}

// place applies where nothing of ours is. Somebody else may have something there.
func (r *streamReconciler) place(ctx context.Context, apply runtime.ApplyConfiguration) error {
	err := r.Writer.Apply(ctx, apply, client.FieldOwner(stream.FieldManager))
	if apierrors.IsConflict(err) {
		return errTaken
	}
	return err
}

func isAsOutside(si *v1beta1.StreamIngress, svc *corev1.Service, isAddress bool) bool {
	if svc == nil || len(svc.Spec.Ports) != 1 || len(svc.Spec.Selector) > 0 {
		return false
	}
	port := svc.Spec.Ports[0]
	same := port.Port == si.Spec.Upstream.Port.IntVal && port.Protocol == corev1.Protocol(si.ProtocolOrDefault()) &&
		port.TargetPort == intstr.FromInt32(port.Port)
	if isAddress {
		return same && svc.Spec.Type == corev1.ServiceTypeClusterIP &&
			svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
	}
	return same && svc.Spec.Type == corev1.ServiceTypeExternalName && svc.Spec.ExternalName == si.Spec.Upstream.Host
}

func isSliceOf(si *v1beta1.StreamIngress, slice *discoveryv1.EndpointSlice) bool {
	return slice != nil && len(slice.Endpoints) == 1 && len(slice.Endpoints[0].Addresses) == 1 &&
		slice.Endpoints[0].Addresses[0] == si.Spec.Upstream.Host && len(slice.Ports) == 1 &&
		slice.Ports[0].Port != nil && *slice.Ports[0].Port == si.Spec.Upstream.Port.IntVal &&
		slice.Ports[0].Protocol != nil && *slice.Ports[0].Protocol == corev1.Protocol(si.ProtocolOrDefault()) &&
		slice.Labels[discoveryv1.LabelServiceName] == v1beta1.OutsideServiceName(si.Name)
}

// isUntouched says whether what a stream has outside is as it was written. What is gone is no matter.
func isUntouched(si *v1beta1.StreamIngress, svc *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	_, err := netip.ParseAddr(si.Spec.Upstream.Host)
	return (svc == nil || metav1.IsControlledBy(svc, si) && isAsOutside(si, svc, err == nil)) && (slice == nil || isSliceOf(si, slice))
}

// writeOutsideService makes the Service of an outside upstream, or sets right what differs. All of it is ours, but an
// apply would leave a port of another number that somebody has put there, so that the API server refuses both.
func (r *streamReconciler) writeOutsideService(ctx context.Context, si *v1beta1.StreamIngress, svc *corev1.Service, isAddress bool) error {
	if svc == nil {
		return r.place(ctx, outsideService(si, isAddress))
	}
	next := svc.DeepCopy()
	port := si.Spec.Upstream.Port.IntVal
	next.Spec.Selector, next.Spec.ExternalName, next.Spec.IPFamilyPolicy = nil, "", nil
	next.Spec.Ports = []corev1.ServicePort{{
		Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.Protocol(si.ProtocolOrDefault()),
	}}
	if next.Spec.Type = corev1.ServiceTypeExternalName; isAddress {
		next.Spec.Type, next.Spec.IPFamilyPolicy = corev1.ServiceTypeClusterIP, new(corev1.IPFamilyPolicyPreferDualStack)
	} else {
		next.Spec.ExternalName = si.Spec.Upstream.Host
	}
	return write.Change(ctx, r.Writer, svc, next)
}

func outsideService(si *v1beta1.StreamIngress, isAddress bool) *corev1ac.ServiceApplyConfiguration {
	port := si.Spec.Upstream.Port.IntVal
	spec := corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().
		WithPort(port).WithTargetPort(intstr.FromInt32(port)).WithProtocol(corev1.Protocol(si.ProtocolOrDefault())))
	if isAddress {
		// kube-proxy leaves out endpoints of a family that their Service does not have, and the first family can't be
		// changed later. One family on a cluster that has one.
		spec.WithType(corev1.ServiceTypeClusterIP).WithIPFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack)
	} else {
		spec.WithType(corev1.ServiceTypeExternalName).WithExternalName(si.Spec.Upstream.Host)
	}
	return corev1ac.Service(v1beta1.OutsideServiceName(si.Name), si.Namespace).WithOwnerReferences(ownedBy(si)).WithSpec(spec)
}

func outsideSlice(si *v1beta1.StreamIngress, addressType discoveryv1.AddressType) *discoveryv1ac.EndpointSliceApplyConfiguration {
	name := v1beta1.OutsideServiceName(si.Name)
	return discoveryv1ac.EndpointSlice(name, si.Namespace).WithOwnerReferences(ownedBy(si)).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: kube.EndpointSliceManager}).
		WithAddressType(addressType).
		WithEndpoints(discoveryv1ac.Endpoint().WithAddresses(si.Spec.Upstream.Host).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true))).
		WithPorts(discoveryv1ac.EndpointPort().WithPort(si.Spec.Upstream.Port.IntVal).
			WithProtocol(corev1.Protocol(si.ProtocolOrDefault())))
}

func ownedBy(si *v1beta1.StreamIngress) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(v1beta1.GroupVersion.String()).WithKind("StreamIngress").
		WithName(si.Name).WithUID(si.UID).WithController(true).WithBlockOwnerDeletion(false)
}
