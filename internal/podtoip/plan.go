// Package podtoip decides which PodToIP a Pod has, and which transitions a Pod goes through.
package podtoip

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Addresses are the IPs of a Pod, the first one first, each in its canonical form. Empty when it has none yet. A Pod
// that has finished still names the IPs it had.
func Addresses(pod *corev1.Pod) []string {
	var addresses []string
	add := func(ip string) {
		// What can't be read is no address that anybody could look up.
		if parsed, err := netip.ParseAddr(ip); err == nil {
			addresses = append(addresses, parsed.Unmap().String())
		}
	}
	for _, ip := range pod.Status.PodIPs {
		add(ip.IP)
	}
	if len(pod.Status.PodIPs) == 0 {
		add(pod.Status.PodIP)
	}
	return addresses
}

// Finished says whether a Pod has run to its end, was evicted, or failed: its IP is free for others.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Wanted is what the PodToIP of a Pod says. ok is false for a Pod that has none: no IP yet, or terminating, or finished,
// or nil.
func Wanted(pod *corev1.Pod) (spec v1beta1.PodToIPSpec, ok bool) {
	if pod == nil || pod.DeletionTimestamp != nil || Finished(pod) {
		return spec, false
	}
	addresses := Addresses(pod)
	if len(addresses) == 0 {
		return spec, false
	}
	return v1beta1.PodToIPSpec{
		PodName: pod.Name, PodAddress: addresses[0], PodAddresses: addresses,
		NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork,
	}, true
}

// Concerns says whether the difference between two versions of a Pod may change its PodToIP.
func Concerns(before, after *corev1.Pod) bool {
	was, had := Wanted(before)
	is, has := Wanted(after)
	return before.UID != after.UID || had != has || !Same(was, is)
}

// Same says whether two PodToIPs say the same.
func Same(a, b v1beta1.PodToIPSpec) bool {
	return slices.Equal(a.PodAddresses, b.PodAddresses) && a.PodName == b.PodName && a.PodAddress == b.PodAddress &&
		a.NodeName == b.NodeName && a.HostNetwork == b.HostNetwork
}

// Change is what has to be done about a PodToIP. The zero value is nothing.
type Change struct {
	// Delete is the UID of the PodToIP to delete first; empty for none.
	Delete types.UID
	// Apply is what to apply then, and Owner the UID of the Pod; nil for nothing.
	Apply *v1beta1.PodToIPSpec
	Owner types.UID
}

// IsNone says whether there is nothing to do.
func (c Change) IsNone() bool { return c.Delete == "" && c.Apply == nil }

// Equal says whether two changes do the same.
func (c Change) Equal(other Change) bool {
	if c.Delete != other.Delete || c.Owner != other.Owner || (c.Apply == nil) != (other.Apply == nil) {
		return false
	}
	return c.Apply == nil || Same(*c.Apply, *other.Apply)
}

// Plan computes what to do about the PodToIP of one name. current is the one that is there, and pod the Pod of that
// name; nil for none. covered says whether the Pods of the namespace get PodToIPs.
//
//	                            the Pod is to have one           it is not
//	absent                      apply                            -
//	the Pod's own               apply, if it says another thing  delete
//	a former Pod's of the name  delete, then apply               delete
//	about to vanish             - (its end asks again)           -
//
// A former Pod's PodToIP is never turned into that of its successor, so that AGE is how long a Pod has had its IP, and
// the garbage collector, which may be deleting it just now, hits nothing that is in use.
func Plan(current *v1beta1.PodToIP, pod *corev1.Pod, covered bool) Change {
	spec, wanted := Wanted(pod)
	wanted = wanted && covered
	switch {
	case current != nil && current.DeletionTimestamp != nil, current == nil && !wanted:
		return Change{}
	case !wanted:
		return Change{Delete: current.UID}
	case current == nil:
		return Change{Apply: &spec, Owner: pod.UID}
	}
	own, former := owners(current, pod.UID)
	switch {
	case former && !own:
		return Change{Delete: current.UID, Apply: &spec, Owner: pod.UID}
	case own && Same(current.Spec, spec):
		return Change{}
	default:
		return Change{Apply: &spec, Owner: pod.UID}
	}
}

// owners says whether a PodToIP belongs to the Pod of a UID, and whether it belongs to another one. Neither is true of
// one whose owner somebody has taken out.
func owners(p *v1beta1.PodToIP, uid types.UID) (own, former bool) {
	for _, ref := range p.OwnerReferences {
		if ref.Kind != "Pod" || ref.APIVersion != corev1.SchemeGroupVersion.String() {
			continue
		}
		own = own || ref.UID == uid
		former = former || ref.UID != uid
	}
	return own, former
}
