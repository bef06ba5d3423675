package snapshot

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestWorkloads(t *testing.T) {
	for name, row := range map[string]struct {
		args     []string
		tcp, udp string
		front    string
		isNginx  bool
		own, not int32 // a port that it has itself, and one that it does not have
	}{
		"ingress-nginx": {
			args: []string{
				"/nginx-ingress-controller", "--publish-service=$(POD_NAMESPACE)/front", "--tcp-services-configmap=$(POD_NAMESPACE)/tcp",
				"--udp-services-configmap", "other/udp", "--https-port=8443",
			},
			tcp: "edge/tcp", udp: "other/udp", front: "edge/front", isNginx: true, own: 8443, not: 443,
		},
		"HAProxy":                          {args: []string{"--configmap-tcp-services=edge/tcp"}, tcp: "edge/tcp", own: 80, not: 8443},
		"a ConfigMap that can't be":        {args: []string{"--tcp-services-configmap=a/b/c"}},
		"one of another folder":            {args: []string{"--tcp-services-configmap=a/.."}},
		"one with a sign":                  {args: []string{"--tcp-services-configmap=a/x%"}},
		"one of a namespace that can't be": {args: []string{"--tcp-services-configmap=a.b/x"}},
		"another program":                  {args: []string{"--verbose"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy"}}
			d.Spec.Template.Spec.Containers = []corev1.Container{
				{Name: "beside", Args: []string{"-v"}},
				{Name: "proxy", Args: row.args, Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 5432}}},
			}
			w, ok := OfDeployment(d)
			if ok != (row.tcp != "") {
				t.Fatalf("got ok %v", ok)
			}
			if !ok {
				return
			}
			if w.ConfigMaps[v1beta1.TCP] != parseKey(row.tcp) || w.ConfigMaps[v1beta1.UDP] != parseKey(row.udp) || w.Publishes != parseKey(row.front) {
				t.Errorf("reads %v, and is reached by %v", w.ConfigMaps, w.Publishes)
			}
			if w.IsNginx != row.isNginx || !w.Own.Has(row.own) || w.Own.Has(row.not) || w.Named["sql"] != 5432 {
				t.Errorf("got %+v", w)
			}
		})
	}
}

func TestDaemonSetOnNodes(t *testing.T) {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy"}}
	d.Spec.Template.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Args: []string{"--tcp-services-configmap=a/b"}}}}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "edge"}
	if w, ok := OfDaemonSet(d); !ok || !w.OnNodes || w.Kind != "DaemonSet" || w.NodeSelector["pool"] != "edge" {
		t.Errorf("got %+v", w)
	}
}
