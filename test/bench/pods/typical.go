package pods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// typical is a Pod as a Deployment of a small web service makes it: one container and one sidecar, with probes,
// resources, a dozen of environment variables, and three volumes. The rest, defaults and managed fields, comes from the
// API server.
func typical(namespace string, i int) *corev1.Pod {
	app := fmt.Sprintf("checkout-%d", i/10%10)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("%s-7d9c5b8f6d-%05d", app, i),
		Labels: map[string]string{
			"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production", "app.kubernetes.io/part-of": "shop",
			"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "1.27.3", "pod-template-hash": "7d9c5b8f6d",
		},
		Annotations: map[string]string{
			"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/metrics",
			"checksum/config":                   "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d9c5b8f6d", UID: "9d6f3b62-6a3c-4a3c-9f55-0d3c8e1c7a11",
			Controller: new(true),
		}},
	}}
	pod.Spec = corev1.PodSpec{
		NodeName:   fmt.Sprintf("worker-%03d.region-a.example.com", i%200),
		Containers: []corev1.Container{container("web", app), container("proxy", "sidecar")},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"},
			}}},
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-tls"}}},
		},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		},
	}
	return pod
}

func container(name, image string) corev1.Container {
	health := &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: health}}
	c := corev1.Container{
		Name: name, Image: "registry.example.com/shop/" + image + ":1.27.3", Args: []string{"--listen=:8080", "--config=/etc/app/config.yaml"},
		Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
		LivenessProbe: probe, ReadinessProbe: probe,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/app"}, {Name: "cache", MountPath: "/var/cache"}, {Name: "tls", MountPath: "/etc/tls"},
		},
	}
	for i := range 12 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: fmt.Sprintf("value of setting %02d", i)})
	}
	return c
}

// running makes the status that a kubelet writes when all containers run and are ready.
func running(pod *corev1.Pod, i int) {
	now := metav1.NewTime(time.Now())
	ip := fmt.Sprintf("10.%d.%d.%d", 128+i/62500, i/250%250, 1+i%250)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now, QOSClass: corev1.PodQOSBurstable,
		HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
	for j := range pod.Spec.Containers {
		c := &pod.Spec.Containers[j]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: new(true), Image: c.Image,
			ImageID:     c.Image + "@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			ContainerID: fmt.Sprintf("containerd://%064d", i*2+j),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}
