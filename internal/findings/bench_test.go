package findings

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// large is a cluster with n Ingresses, n Services, and a tenth of that of listeners and of routes: all on one Gateway, one port, one address.
func large(n int) *snapshot.Snapshot {
	s := snapshot.Snapshot{IngressClasses: []*networkingv1.IngressClass{nginx}, Gateways: []*gatewayv1.Gateway{having(gateway("edge/gw", 0), "192.0.2.1")}}
	entries := map[string]string{}
	for i := range n {
		team := fmt.Sprintf("team-%d", i%500)
		s.Ingresses = append(s.Ingresses, ingress(fmt.Sprintf("%s/i%d", team, i), i, "nginx",
			fmt.Sprintf("h%d.example.com/", i), fmt.Sprintf("shared.example.com/p%d", i)))
		svc := balancer(fmt.Sprintf("%s/s%d", team, i), i, int32(1+i%60000), one)
		svc.Spec.ExternalIPs = []string{"192.0.2.9"}
		s.Services = append(s.Services, svc)
		entries[fmt.Sprint(20000+i)] = fmt.Sprintf("%s/s%d:p%d", team, i, svc.Spec.Ports[0].Port)
	}
	for i := range n / 10 {
		key := fmt.Sprintf("team-%d/l%d", i%500, i)
		s.ListenerSets = append(s.ListenerSets, listenerSet(key, i,
			listener("x", 80, protoHTTP, fmt.Sprintf("h%d.example.com", i)), listener("y", 10000, protoTCP, "")))
		s.Routes = append(s.Routes, metav1.Object(tcpRoute(key, i, "x")))
	}
	s.ConfigMaps = []*corev1.ConfigMap{configMap("edge/tcp-services", entries)}
	return whole(s)
}

// BenchmarkAll is of a cluster with 10,000 Ingresses and Services and 2,000 listeners, a tenth of it, and twice as much: the time has to grow
// as the cluster does.
func BenchmarkAll(b *testing.B) {
	for _, n := range []int{1000, 10_000, 20_000} {
		s := large(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if len(All(s)) == 0 {
					b.Fatal("nothing was found")
				}
			}
		})
	}
}
