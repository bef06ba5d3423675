package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// readyCondition is what is kept of the conditions of a Pod that is ready. All cached Pods share it.
var readyCondition = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}

// slimPod keeps of a Pod what is used: who and where it is, its IPs, and how far it is in its life. All else, most of a
// Pod, is left to the garbage collector.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, PodIPs: pod.Status.PodIPs},
	}
	if len(slim.Status.PodIPs) == 0 && pod.Status.PodIP != "" {
		slim.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			slim.Status.Conditions = readyCondition
		}
	}
	return slim, nil
}

// slimPodToIP keeps of a PodToIP what it says and whose it is.
func slimPodToIP(obj any) (any, error) {
	p, ok := obj.(*v1beta1.PodToIP)
	if !ok {
		return obj, nil
	}
	return &v1beta1.PodToIP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
			DeletionTimestamp: p.DeletionTimestamp, OwnerReferences: p.OwnerReferences,
		},
		Spec: p.Spec,
	}, nil
}

// Pod reads a Pod from the cache, nil when there is none.
func (v *View) Pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if found, err := v.get(ctx, key, pod); !found {
		return nil, err
	}
	return pod, nil
}

// PodToIP reads a PodToIP from the cache, nil when there is none.
func (v *View) PodToIP(ctx context.Context, key types.NamespacedName) (*v1beta1.PodToIP, error) {
	p := &v1beta1.PodToIP{}
	if found, err := v.get(ctx, key, p); !found {
		return nil, err
	}
	return p, nil
}

// PodNames are the names of all Pods and all PodToIPs of a namespace. A name may come twice.
func (v *View) PodNames(ctx context.Context, namespace string) ([]types.NamespacedName, error) {
	var pods corev1.PodList
	if err := v.Reader.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var entries v1beta1.PodToIPList
	if err := v.Reader.List(ctx, &entries, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	names := make([]types.NamespacedName, 0, len(pods.Items)+len(entries.Items))
	for i := range pods.Items {
		names = append(names, types.NamespacedName{Namespace: namespace, Name: pods.Items[i].Name})
	}
	for i := range entries.Items {
		names = append(names, types.NamespacedName{Namespace: namespace, Name: entries.Items[i].Name})
	}
	return names, nil
}
