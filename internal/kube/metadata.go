package kube

import (
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// A tenant can write a quarter of a MiB of annotations on an object, and more than one of labels, managed fields, finalizers
// and owners, on as many objects as it likes. A cache therefore keeps what somebody reads, and of that as much as can say
// anything: what is cut is still too long for whoever judges it, so that the verdict is that on the whole.

// annotations are all that anybody reads of a cached object, by the most bytes that a value may have to mean something.
var annotations = map[string]int{
	v1beta1.AnnotationHTTP:                       exposure.MaxLength,
	v1beta1.AnnotationIngressClass:               maxName,
	v1beta1.AnnotationMadeFor:                    maxName,
	v1beta1.AnnotationAddressPool:                maxName,
	v1beta1.AnnotationAddresses:                  loadbalancer.MaxLength,
	v1beta1.AnnotationSharing:                    maxName,
	v1beta1.AnnotationDefaultClass:               maxName,
	v1beta1.AnnotationHandOverTo:                 claim.MaxHeir,
	networkingv1.AnnotationIsDefaultIngressClass: maxName,
	v1beta1.AnnotationExternalDNS:                hostname.MaxAnnotation,
	v1beta1.AnnotationExternalDNSInternal:        hostname.MaxAnnotation,
	v1beta1.AnnotationServerAlias:                hostname.MaxAnnotation,
}

// maxName is how long names of Kubernetes can be, in bytes. No other single word that is read is longer.
const maxName = 253

// slimMeta leaves of the metadata of an object what somebody reads, but for labels.
func slimMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Annotations: knownAnnotations(m.Annotations), OwnerReferences: controllerOf(m),
	}
	intern(&m.Namespace)
}

// knownAnnotations are those that somebody reads, nil for none.
func knownAnnotations(all map[string]string) map[string]string {
	var known map[string]string
	for name, most := range annotations {
		value, there := all[name]
		if !there {
			continue
		}
		if known == nil {
			known = map[string]string{}
		}
		known[name] = cut(value, most)
	}
	return known
}

// controllerOf is the owner that controls an object, if there is one: no other owner is looked for.
func controllerOf(m *metav1.ObjectMeta) []metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil {
		return nil
	}
	return []metav1.OwnerReference{{
		APIVersion: cut(owner.APIVersion, maxName), Kind: cut(owner.Kind, maxName), Name: cut(owner.Name, maxName),
		UID: cut(owner.UID, maxName), Controller: ptr.To(true),
	}}
}

// someLabels are as many labels as a serviceSelector looks at: all of them up to addresspool.MaxLabelBytes, and of more just
// as many, in the order of their keys, that there are still too many for any to select them. The label of a class is always
// among them.
func someLabels(all labels.Set) labels.Set {
	if addresspool.LabelBytes(all) <= addresspool.MaxLabelBytes {
		return all
	}
	some, left := labelOfClass(all), addresspool.MaxLabelBytes-addresspool.LabelBytes(labelOfClass(all))
	if some == nil {
		some = labels.Set{}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key == v1beta1.LabelClass {
			continue
		}
		some[key] = all[key]
		if left -= len(key) + len(all[key]); left < 0 {
			break
		}
	}
	return some
}

// labelOfClass is the label that Portcullis writes on what a class names, nil without it.
func labelOfClass(all labels.Set) labels.Set {
	if class, there := all[v1beta1.LabelClass]; there {
		return labels.Set{v1beta1.LabelClass: class}
	}
	return nil
}

// applied says that, and when, Portcullis has applied to an object, nil if it has not. What it has applied is left out.
func applied(m *metav1.ObjectMeta) []metav1.ManagedFieldsEntry {
	for i := range m.ManagedFields {
		if e := &m.ManagedFields[i]; isApplied(e) && e.Subresource == "" {
			return []metav1.ManagedFieldsEntry{{Manager: stream.FieldManager, Operation: e.Operation, Time: e.Time}}
		}
	}
	return nil
}

// Applied says whether Portcullis has applied anything to an object.
func Applied(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return isApplied(&e) })
}

func isApplied(e *metav1.ManagedFieldsEntry) bool {
	return e.Manager == stream.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply
}

// Written says whether Portcullis has created or applied an object, or changed it, of what still stands.
func Written(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return isWritten(&e) })
}

// LastWritten is when Portcullis last created, applied or changed an object, of what still stands; nil if it has not, or nobody knows.
func LastWritten(obj metav1.Object) (last *metav1.Time) {
	for _, e := range obj.GetManagedFields() {
		if isWritten(&e) && e.Time != nil && (last == nil || last.Before(e.Time)) {
			last = e.Time
		}
	}
	return last
}

func isWritten(e *metav1.ManagedFieldsEntry) bool {
	return e.Manager == stream.FieldManager && e.Subresource == ""
}

// cut is a string of which one byte more is left than may be used, so that what is too long stays so.
func cut[S ~string](s S, most int) S {
	if len(s) <= most {
		return s
	}
	return S(strings.Clone(string(s[:most+1]))) // a part would keep the whole
}
