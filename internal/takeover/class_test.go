package takeover

import (
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestMakeClass(t *testing.T) {
	entries := map[string]string{"5432": "shop/db:5432"}
	own, evil := workload("ingress-nginx/z", "ingress-nginx/tcp", "ingress-nginx/front", 5432), workload("evil/a", "ingress-nginx/tcp", "evil/front")
	tcp := configMap("ingress-nginx/tcp", entries)
	for name, tc := range map[string]struct {
		cluster *Cluster
		in      string // the namespace of the proxy that is asked for
		want    string // the Service of the class, empty for no class
		held    bool
		says    string
	}{
		"of the proxy":               {cluster: clusterWith(tcp, own), want: "ingress-nginx/front", says: "is this the proxy?"},
		"of the proxy that is named": {cluster: clusterWith(tcp, own), in: "ingress-nginx", want: "ingress-nginx/front"},
		"of whom its namespace proves, and not of who says to read the same": {
			cluster: clusterWith(tcp, evil, own), want: "ingress-nginx/front", says: "is this the proxy?"},
		"not of who is in another namespace than what it reads": {
			cluster: clusterWith(tcp, evil), says: "is not made"},
		"not of a name that anybody may give": {
			cluster: clusterWith(configMap("evil/tcp-services", entries)), says: "is not made"},
		"not of one of several": {
			cluster: clusterWith(tcp, own, configMap("shop/tcp", nil), workload("shop/other", "shop/tcp", "shop/front")),
			says:    "there are several proxies"},
		"of the one of several that is asked for": {
			cluster: clusterWith(tcp, own, configMap("shop/tcp", nil), workload("shop/other", "shop/tcp", "shop/front")),
			in:      "ingress-nginx", want: "ingress-nginx/front"},
		"not where another class has it": {cluster: clusterWith(tcp, own, class("other", "ingress-nginx/tcp")), says: "is not made"},
		"not where it is there":          {cluster: clusterWith(tcp, own, class("public", "ingress-nginx/tcp"))},
		"not where it is another one's":  {cluster: clusterWith(tcp, own, class("public", "shop/tcp")), says: "choose another --class"},
		"of a proxy on the nodes, to which a Service leads, too": {
			cluster: clusterWith(tcp, own, func(c *Cluster) { c.Workloads[0].OnNodes = true }), want: "nodes", says: "if ports are to be opened there"},
		"of one of several Services": {
			cluster: clusterWith(tcp, own, balancer("ingress-nginx/a-other", "", 5432), func(c *Cluster) {
				c.Workloads[0].Labels = map[string]string{"app": "a"}
				c.Services[len(c.Services)-1].Spec.Selector = c.Workloads[0].Labels
			}), want: "ingress-nginx/front", held: true, says: "is ingress-nginx/front the one?"},
		"of a proxy to which ports of the nodes lead, too": {
			cluster: clusterWith(tcp, own, onNode(5432)), want: "ingress-nginx/front", held: true, says: "it is reached by ports of the nodes, too"},
		"not without ConfigMaps": {cluster: clusterWith(own), says: "is not made"},
	} {
		t.Run(name, func(t *testing.T) {
			docs := StreamsOf(tc.cluster, Options{Class: "public", ProxyNamespace: tc.in})
			got, said := "", []string(nil)
			for _, d := range docs {
				if class, is := d.Object.(*v1beta1.StreamIngressClass); is {
					if got = "nodes"; class.Spec.Service != nil {
						got = class.Spec.Service.Namespace + "/" + class.Spec.Service.Name
					}
					if d.Held != tc.held {
						t.Errorf("it waits: %v", d.Held)
					}
					if class.Spec.Adopt != v1beta1.AdoptTake || class.Spec.UDPConfigMap != nil || len(class.Spec.Reserved) != 2 {
						t.Errorf("got %+v", class.Spec)
					}
				}
				said = append(said, d.Decisions...)
			}
			if got != tc.want {
				t.Errorf("the class has the Service %q: %q", got, said)
			}
			says(t, said, tc.says)
		})
	}
}

// TestClassOfWhatNoServiceIsKnownOf has a ConfigMap that is chosen by its namespace.
func TestClassOfWhatNoServiceIsKnownOf(t *testing.T) {
	c := clusterWith(configMap("ingress-nginx/tcp-services", map[string]string{"5432": "shop/db:5432"}))
	d := StreamsOf(c, Options{Class: "public", ProxyNamespace: "ingress-nginx"})[0]
	if _, is := d.Object.(*v1beta1.StreamIngressClass); !is || !d.Held {
		t.Errorf("got %+v", d)
	}
	says(t, d.Decisions, "no Service was found in front of it")
}
