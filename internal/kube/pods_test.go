package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestSlimPod(t *testing.T) {
	end := &metav1.Time{Time: time.Unix(1, 0)}
	kept := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "one", ResourceVersion: "7", DeletionTimestamp: end},
			Spec:       corev1.PodSpec{NodeName: "node-a", HostNetwork: true},
			Status: corev1.PodStatus{
				Phase: corev1.PodFailed, Reason: "Evicted", PodIPs: []corev1.PodIP{{IP: "10.0.3.7"}, {IP: "fd00::7"}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		}
	}
	full := kept()
	full.Labels = map[string]string{"app": "web"}
	full.Annotations = map[string]string{"note": "long"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet"}}
	full.Spec.Containers = []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}
	full.Status.HostIP, full.Status.PodIP, full.Status.Message = "192.0.2.1", "10.0.3.7", "The node was low on memory."
	full.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web"}}
	full.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: *end, Message: "all is well"},
	}
	older := kept()
	older.Status.PodIPs, older.Status.PodIP = nil, "10.0.3.7"
	onlyOne := kept()
	onlyOne.Status.PodIPs = onlyOne.Status.PodIPs[:1]
	unready := kept()
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	noCondition := kept()
	noCondition.Status.Conditions = nil
	for name, c := range map[string]struct{ pod, want *corev1.Pod }{
		"a full Pod":                 {full, kept()},
		"nothing but what is kept":   {kept(), kept()},
		"an IP in the older field":   {older, onlyOne},
		"not ready":                  {unready, noCondition},
		"a Pod nobody has looked at": {&corev1.Pod{}, &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := slim(c.pod)
			if err != nil {
				t.Fatal(err)
			}
			slim, ok := got.(*cachedPod)
			if !ok {
				t.Fatalf("it is a %T", got)
			}
			if diff := cmp.Diff(c.want, PodOf(slim)); diff != "" {
				t.Errorf("slimPod (-want +got):\n%s", diff)
			}
			again, err := transformOf(c.pod)(slim)
			if err != nil || again != any(slim) {
				t.Errorf("a second time, it made %v, %v", again, err)
			}
			copied := slim.DeepCopyObject().(*cachedPod)
			for i := range slim.ips {
				slim.ips[i].IP = "changed"
			}
			if diff := cmp.Diff(c.want, PodOf(copied)); diff != "" {
				t.Errorf("the copy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlimPodToIP(t *testing.T) {
	want := &v1beta1.PodToIP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "entry", ResourceVersion: "8", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "one"}},
		},
		Spec: v1beta1.PodToIPSpec{PodName: "web-0", PodAddress: "10.0.3.7", PodAddresses: []string{"10.0.3.7"}, NodeName: "node-a"},
	}
	full := want.DeepCopy()
	full.Labels, full.ManagedFields = map[string]string{"app": "web"}, []metav1.ManagedFieldsEntry{{Manager: "portcullis"}}
	got, err := slim(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slimPodToIP (-want +got):\n%s", diff)
	}
}

func TestSlimLeavesWhatItDoesNotKnow(t *testing.T) {
	unknown := toolscache.DeletedFinalStateUnknown{Key: "shop/web-0"}
	for name, slim := range map[string]toolscache.TransformFunc{"Pods": transformOf(&corev1.Pod{}), "PodToIPs": transformOf(&v1beta1.PodToIP{})} {
		if got, err := slim(unknown); err != nil || got != any(unknown) {
			t.Errorf("%s made %v, %v of %v", name, got, err, unknown)
		}
	}
}
