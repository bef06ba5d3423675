package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// ConfigMap reads a ConfigMap of a class, nil when there is none: as it is watched, or live while it is not.
func (t *Targets) ConfigMap(ctx context.Context, ref v1beta1.ObjectReference) (*corev1.ConfigMap, error) {
	if watched := t.get(Target{configMaps, keyOf(ref)}); watched != nil {
		return watched.(*corev1.ConfigMap), nil
	}
	return readBy[corev1.ConfigMap](ctx, t.objects.live, keyOf(ref))
}

// Front reads the Service of a class, nil when there is none: as it is watched, or as the cache of all Services has it, which
// leaves out the managed fields, while it is not.
func (t *Targets) Front(ctx context.Context, ref v1beta1.ObjectReference) (*corev1.Service, error) {
	if watched := t.get(Target{services, keyOf(ref)}); watched != nil {
		return watched.(*corev1.Service), nil
	}
	return t.objects.Service(ctx, keyOf(ref))
}

// ProxyService reads the Service of a class with its managed fields, nil when there is none: as it is watched, or live while
// it is not.
func (t *Targets) ProxyService(ctx context.Context, ref v1beta1.ObjectReference) (*corev1.Service, error) {
	if watched := t.get(Target{services, keyOf(ref)}); watched != nil {
		return watched.(*corev1.Service), nil
	}
	svc, err := t.objects.Service(ctx, keyOf(ref))
	if err != nil || svc == nil {
		return nil, err
	}
	return readBy[corev1.Service](ctx, t.objects.live, keyOf(ref))
}

// Foreign finds what is at a port on the class's proxy that was not made by Portcullis, ok is false for nothing.
func (t *Targets) Foreign(
	ctx context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey,
) (f stream.Foreign, ok bool, err error) {
	if class.Spec.Gateway != nil {
		by, ok, err := t.gateways.Foreign(ctx, class, port)
		return stream.Foreign{Holder: by}, ok, err
	}
	if ref := class.ConfigMap(port.Protocol); ref != nil {
		cm, err := t.ConfigMap(ctx, *ref)
		if err != nil {
			return stream.Foreign{}, false, err
		}
		if cm != nil {
			f, ok, err := t.foreignEntry(*ref, cm, port.Port)
			if ok || err != nil {
				return f, ok, err
			}
		}
	}
	if class.Spec.Service == nil {
		return stream.Foreign{}, false, nil
	}
	return t.foreignPort(ctx, *class.Spec.Service, port)
}

func (t *Targets) foreignEntry(ref v1beta1.ObjectReference, cm *corev1.ConfigMap, port int32) (stream.Foreign, bool, error) {
	if _, there := cm.Data[stream.Key(port)]; !there {
		return stream.Foreign{}, false, nil
	}
	current, err := t.Entries(cm)
	if err != nil {
		return stream.Foreign{}, false, err
	}
	entry, foreign := current.Foreign[port]
	return stream.Foreign{Holder: stored(claim.ConfigMapHolder(ref.Namespace, ref.Name), cm.UID), Entry: entry}, foreign, nil
}

func (t *Targets) foreignPort(ctx context.Context, ref v1beta1.ObjectReference, port stream.PortKey) (stream.Foreign, bool, error) {
	svc, err := t.ProxyService(ctx, ref)
	if err != nil || svc == nil {
		return stream.Foreign{}, false, err
	}
	front, err := t.Ports(svc)
	if err != nil {
		return stream.Foreign{}, false, err
	}
	_, foreign := front.Foreign[port]
	return stream.Foreign{Holder: stored(claim.ServiceHolder(ref.Namespace, ref.Name), svc.UID)}, foreign, nil
}

func stored(h claim.Holder, uid types.UID) claim.Claimant { return claim.Claimant{Holder: h, UID: uid} }

func keyOf(ref v1beta1.ObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// observations keep what was read from the managed fields of an object until the object changes: reading them takes
// time that grows with the number of entries, and several callers want the same answer.
type observations[T any] struct {
	mu   sync.Mutex
	last map[types.NamespacedName]observation[T]
}

type observation[T any] struct {
	uid     types.UID
	version string
	value   T
}

// of reads an object, unless it is the version that was read last.
func (o *observations[T]) of(obj metav1.Object, read func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if last, ok := o.last[key]; ok && last.uid == obj.GetUID() && last.version == obj.GetResourceVersion() {
		return last.value, nil
	}
	value, err := read()
	if err == nil {
		if o.last == nil {
			o.last = map[types.NamespacedName]observation[T]{}
		}
		o.last[key] = observation[T]{uid: obj.GetUID(), version: obj.GetResourceVersion(), value: value}
	}
	return value, err
}

// Entries reads what is in a ConfigMap.
func (t *Targets) Entries(cm *corev1.ConfigMap) (stream.Current, error) {
	return t.entries.of(cm, func() (stream.Current, error) { return stream.Entries(cm) })
}

// EntriesOf reads what is in the ConfigMap of a class for a protocol, nothing where there is none.
func (t *Targets) EntriesOf(
	ctx context.Context, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol,
) (stream.Current, error) {
	ref := class.ConfigMap(protocol)
	if ref == nil {
		return stream.Current{}, nil
	}
	cm, err := t.ConfigMap(ctx, *ref)
	if err != nil || cm == nil {
		return stream.Current{}, err
	}
	return t.Entries(cm)
}

// Ports reads the ports of a Service, which must have its managed fields: see ProxyService.
func (t *Targets) Ports(svc *corev1.Service) (stream.ServicePorts, error) {
	return t.ports.of(svc, func() (stream.ServicePorts, error) { return stream.Ports(svc) })
}
