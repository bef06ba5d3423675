package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// readyCondition is what is kept of the conditions of a Pod that is ready. All Pods share it.
var readyCondition = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}

// cachedPod is what the cache holds of a Pod: who and where it is, its IPs, and how far it is in its life. Clusters have
// tens of thousands, and Go's own type for Pods takes 1.4 KiB when it is empty.
type cachedPod struct {
	metav1.ObjectMeta
	nodeName    string
	phase       corev1.PodPhase
	reason      string
	ips         []corev1.PodIP
	hostNetwork bool
	ready       bool
}

var _ client.Object = &cachedPod{}

// GetObjectKind implements runtime.Object.
func (*cachedPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *cachedPod) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	c.ips = slices.Clone(p.ips)
	return &c
}

// slimPod keeps of a Pod what is used. All else, most of a Pod, is left to the garbage collector.
func slimPod(pod *corev1.Pod) *cachedPod {
	slim := &cachedPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		nodeName: pod.Spec.NodeName, hostNetwork: pod.Spec.HostNetwork,
		phase: pod.Status.Phase, reason: pod.Status.Reason, ips: pod.Status.PodIPs,
	}
	intern(&slim.Namespace)
	intern(&slim.nodeName)
	intern(&slim.phase)
	intern(&slim.reason)
	if len(slim.ips) == 0 && pod.Status.PodIP != "" {
		slim.ips = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	slim.ready = slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return slim
}

// PodOf is what is known of a Pod that came from the cache, as a Pod.
func PodOf(obj client.Object) *corev1.Pod {
	slim, ok := obj.(*cachedPod)
	if !ok {
		return obj.(*corev1.Pod)
	}
	pod := &corev1.Pod{
		ObjectMeta: slim.ObjectMeta,
		Spec:       corev1.PodSpec{NodeName: slim.nodeName, HostNetwork: slim.hostNetwork},
		Status:     corev1.PodStatus{Phase: slim.phase, Reason: slim.reason, PodIPs: slim.ips},
	}
	if slim.ready {
		pod.Status.Conditions = readyCondition
	}
	return pod
}

// slimPodToIP keeps of a PodToIP what it says and whose it is.
func slimPodToIP(p *v1beta1.PodToIP) *v1beta1.PodToIP {
	return &v1beta1.PodToIP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
			DeletionTimestamp: p.DeletionTimestamp, OwnerReferences: p.OwnerReferences,
		},
		Spec: p.Spec,
	}
}

// Pods reads Pods and PodToIPs.
type Pods struct{ objects *objects }

// pods are the cached Pods. Nobody but the cache knows their type, so they are read past its client.
func (p *Pods) pods(ctx context.Context) (toolscache.Indexer, error) {
	informer, err := p.objects.informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("reading Pods: %w", err)
	}
	indexed, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("the cache keeps Pods in a %T", informer)
	}
	return indexed.GetIndexer(), nil
}

// Get reads a Pod from the cache, nil when there is none.
func (p *Pods) Get(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return nil, err
	}
	obj, found, err := pods.GetByKey(key.String())
	if err != nil || !found {
		return nil, err
	}
	return PodOf(obj.(client.Object)), nil
}

// PodToIP reads a PodToIP from the cache, nil when there is none.
func (p *Pods) PodToIP(ctx context.Context, key types.NamespacedName) (*v1beta1.PodToIP, error) {
	return read[v1beta1.PodToIP](ctx, p.objects, key)
}

// Names are the names of all Pods and all PodToIPs of a namespace. A name may come twice.
func (p *Pods) Names(ctx context.Context, namespace string) ([]types.NamespacedName, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := pods.IndexKeys(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	var entries v1beta1.PodToIPList
	if err := p.objects.Reader.List(ctx, &entries, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	names := make([]types.NamespacedName, 0, len(keys)+len(entries.Items))
	for _, key := range keys {
		_, name, err := toolscache.SplitMetaNamespaceKey(key)
		if err != nil {
			return nil, err
		}
		names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
	}
	for i := range entries.Items {
		names = append(names, types.NamespacedName{Namespace: namespace, Name: entries.Items[i].Name})
	}
	return names, nil
}
