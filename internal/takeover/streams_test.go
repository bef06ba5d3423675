package takeover

import "testing"

// TestUnclassed holds that entries that no class has are counted, and what to do is said.
func TestUnclassed(t *testing.T) {
	entries := map[string]string{"1": "shop/db:1", "2": "evil/x:1"}
	for name, tc := range map[string]struct {
		cluster *Cluster
		in      string
		says    string
	}{
		"of a proxy":                 {clusterWith(configMap("ingress-nginx/tcp", entries), workload("ingress-nginx/a", "ingress-nginx/tcp", "ingress-nginx/f")), "", "2 entries of ConfigMap ingress-nginx/tcp are left out: no StreamIngressClass has it: import again with --class NAME"},
		"of a proxy, in a namespace": {clusterWith(configMap("ingress-nginx/tcp", entries), workload("ingress-nginx/a", "ingress-nginx/tcp", "ingress-nginx/f")), "evil", "1 entry of ConfigMap ingress-nginx/tcp is left out"},
		"by name":                    {clusterWith(configMap("evil/tcp-services", entries)), "", "--class NAME --proxy-namespace evil"},
		"of elsewhere":               {clusterWith(configMap("ingress-nginx/tcp", entries), workload("evil/a", "ingress-nginx/tcp", "evil/f")), "", "where anybody may run it"},
	} {
		t.Run(name, func(t *testing.T) {
			docs := StreamsOf(tc.cluster, Options{Namespace: tc.in})
			if len(docs) != 1 || docs[0].Object != nil {
				t.Fatalf("got %+v", docs)
			}
			says(t, docs[0].Decisions, tc.says)
		})
	}
}
