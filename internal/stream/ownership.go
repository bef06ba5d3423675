package stream

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// FieldManager is the field manager of everything that Portcullis applies.
const FieldManager = "portcullis"

// ReturnManager is the field manager of entries that streams had taken over and that Portcullis has written back. They are
// foreign again: as any field manager but the first, it is one of the others.
const ReturnManager = "portcullis-returned"

// ownership tells the fields that Portcullis has applied from those that others have written.
type ownership struct {
	ours, others *fieldpath.Set
	// returned are those of the others that Portcullis has written back.
	returned *fieldpath.Set
}

// readOwnership reads metadata.managedFields.
func readOwnership(entries []metav1.ManagedFieldsEntry) (ownership, error) {
	o := ownership{ours: fieldpath.NewSet(), others: fieldpath.NewSet(), returned: fieldpath.NewSet()}
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return o, fmt.Errorf("managed fields of %q can't be read: %w", e.Manager, err)
		}
		if e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply {
			o.ours = o.ours.Union(set)
		} else {
			o.others = o.others.Union(set)
		}
		if e.Manager == ReturnManager {
			o.returned = o.returned.Union(set)
		}
	}
	return o, nil
}

// AppliedAlone says whether Portcullis has applied to an object, and nobody else has written to it, or what others wrote is
// gone.
func AppliedAlone(obj metav1.Object) bool {
	isOther := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager != FieldManager || e.Operation != metav1.ManagedFieldsOperationApply
	}
	return len(obj.GetManagedFields()) > 0 && !slices.ContainsFunc(obj.GetManagedFields(), isOther)
}

// Current is what is in a ConfigMap now.
type Current struct {
	// Data is the whole data of the ConfigMap.
	Data map[string]string
	// Ours are the keys that Portcullis has applied, by port.
	Ours map[int32]bool
	// Foreign are the keys that are ports and that others have written, whether we have applied them too or not, by port.
	Foreign map[int32]string
	// Returned are the keys that Portcullis has written back, by port.
	Returned map[int32]bool
	// Leading are the ports of the keys that Portcullis alone has applied, by the namespace/name of the Service that they lead to.
	Leading map[string][]int32
	// Binary is the size of what else the ConfigMap holds, in bytes.
	Binary int
}

// Entries reads what is in a ConfigMap. Keys that are no ports do not appear in Ours and Foreign.
func Entries(cm *corev1.ConfigMap) (Current, error) {
	s := Current{Data: cm.Data, Ours: map[int32]bool{}, Foreign: map[int32]string{}, Returned: map[int32]bool{}}
	for _, b := range cm.BinaryData {
		s.Binary += len(b)
	}
	owned, err := readOwnership(cm.ManagedFields)
	if err != nil {
		return s, err
	}
	data := fieldName("data")
	ours, others, returned := owned.ours.WithPrefix(data), owned.others.WithPrefix(data), owned.returned.WithPrefix(data)
	for key, v := range cm.Data {
		port, ok := ParseKey(key)
		if !ok {
			continue
		}
		path := fieldpath.Path{fieldName(key)}
		s.Ours[port] = ours.Has(path)
		if !s.Ours[port] || others.Has(path) {
			s.Foreign[port] = v
		}
		if !s.Ours[port] {
			delete(s.Ours, port)
		}
		if returned.Has(path) {
			s.Returned[port] = true
		}
	}
	s.lead()
	return s, nil
}

// PortKey is what makes a port of a Service unique. It is comparable.
type PortKey struct {
	Protocol v1beta1.Protocol
	Port     int32
}

// ServicePorts are the ports on the Service in front of a proxy now.
type ServicePorts struct {
	// Ours are the ports that Portcullis alone has opened.
	Ours map[PortKey]corev1.ServicePort
	// Foreign are the ports that others have opened, whether we have applied them too or not.
	Foreign map[PortKey]corev1.ServicePort
	// Shared are the ports that both have applied.
	Shared map[PortKey]bool
}

// Ports reads the ports of a Service.
func Ports(svc *corev1.Service) (ServicePorts, error) {
	f := ServicePorts{Ours: map[PortKey]corev1.ServicePort{}, Foreign: map[PortKey]corev1.ServicePort{}, Shared: map[PortKey]bool{}}
	owned, err := readOwnership(svc.ManagedFields)
	if err != nil {
		return f, err
	}
	spec, ports := fieldName("spec"), fieldName("ports")
	ours := owned.ours.WithPrefix(spec).WithPrefix(ports)
	others := owned.others.WithPrefix(spec).WithPrefix(ports)
	for _, p := range svc.Spec.Ports {
		key := PortKey{Protocol: v1beta1.Protocol(p.Protocol), Port: p.Port}
		item := portElement(p)
		mine, theirs := owns(ours, item), others.Has(fieldpath.Path{item}) // who only edits a field of one of our ports has not opened it
		if mine && !theirs {
			f.Ours[key] = p
		} else {
			f.Foreign[key] = p
			f.Shared[key] = mine
		}
	}
	return f, nil
}

// owns says whether a set has the list item or anything in it.
func owns(set *fieldpath.Set, item fieldpath.PathElement) bool {
	return set.Has(fieldpath.Path{item}) || !set.WithPrefix(item).Empty()
}

func fieldName(name string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &name} }

func portElement(p corev1.ServicePort) fieldpath.PathElement {
	return fieldpath.PathElement{Key: &value.FieldList{
		{Name: "port", Value: value.NewValueInterface(int64(p.Port))},
		{Name: "protocol", Value: value.NewValueInterface(string(p.Protocol))},
	}}
}
