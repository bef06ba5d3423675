package takeover

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func TestStreams(t *testing.T) {
	asks := func(key string, listen int32, change func(*v1beta1.StreamIngress)) func(*Cluster) {
		return func(c *Cluster) {
			s := &v1beta1.StreamIngress{ObjectMeta: metaOf(key), Spec: v1beta1.StreamIngressSpec{
				ClassName: "public", Protocol: v1beta1.TCP, Listen: &listen, Upstream: v1beta1.StreamUpstream{Service: "db", Port: intstr.FromInt32(5432)},
			}}
			if change != nil {
				change(s)
			}
			c.Streams = append(c.Streams, s)
		}
	}
	elsewhere := func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Service = "other" }
	held := func(s *v1beta1.StreamIngress) {
		elsewhere(s)
		s.Status = v1beta1.StreamIngressStatus{ClassName: "public", Listen: 5432, Conditions: []metav1.Condition{
			{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionTrue}}}
	}
	for name, tc := range map[string]struct {
		port, entry string
		change      []func(*Cluster)
		in          string
		want        string // the upstream, empty for no stream
		held        bool
		says        string
	}{
		"a number":                           {port: "5432", entry: "shop/db:5432", want: "db:5432"},
		"a name":                             {port: "5432", entry: "shop/db:sql", want: "db:sql"},
		"PROXY":                              {port: "5432", entry: "shop/db:5432::proxy", want: "db:5432 false true"},
		"a Service that is not there":        {port: "5432", entry: "shop/later:1", want: "later:1"},
		"a name of a Service that is away":   {port: "5432", entry: "shop/later:sql", want: "later:sql", held: true, says: "there is no Service shop/later"},
		"a name that the Service lacks":      {port: "5432", entry: "shop/db:dns", want: "db:dns", held: true, says: `no TCP port "dns"`},
		"a namespace that is not there":      {port: "5432", entry: "gone/db:1", want: "db:1", held: true, says: "namespace gone does not exist"},
		"a port that is not open":            {port: "7000", entry: "shop/db:1", want: "db:1", held: true, says: "is not open"},
		"a port of the proxy":                {port: "443", entry: "shop/db:1", says: "listens on this port itself"},
		"no port":                            {port: "x", entry: "shop/db:1", says: "is no port"},
		"a number with a zero in front":      {port: "05432", entry: "shop/db:1", says: "ingress-nginx listens for it at 5432"},
		"no entry":                           {port: "5432", entry: "shop", says: "is not namespace/service:port"},
		"lines":                              {port: "5432", entry: "a\n---\nb", says: `"a\n---\nb"`},
		"of another namespace":               {port: "5432", entry: "shop/db:1", in: "evil"},
		"of the namespace":                   {port: "5432", entry: "shop/db:1", in: "shop", want: "db:1"},
		"what can't be read, in a namespace": {port: "5432", entry: "x", in: "shop"},
		"a stream that says the same":        {port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, nil)}},
		"a stream of another namespace": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("evil/x", 5432, held)}, want: "db:5432"},
		"a stream that has it and leads elsewhere": {port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, held)}},
		"a stream that asks for it and leads elsewhere": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, elsewhere)},
			want: "db:5432", held: true, says: "StreamIngress shop/mine is there"},
		"a stream that has it, and another one of the name": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/public-tcp-5432", 1, nil), asks("shop/mine", 5432, held)}},
		"a stream that is not accepted": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "is not accepted",
			change: []func(*Cluster){asks("shop/mine", 5432, func(s *v1beta1.StreamIngress) {
				s.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionFalse}}
			})}},
		"a stream that is being deleted": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "is being deleted",
			change: []func(*Cluster){asks("shop/mine", 5432, func(s *v1beta1.StreamIngress) { s.DeletionTimestamp = &metav1.Time{} })}},
		"a stream of the name": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/public-tcp-5432", 1, nil)},
			want: "db:5432", held: true, says: "and says something else"},
		"the same port of a proxy in another place": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", change: []func(*Cluster){
				configMap("shop/tcp", map[string]string{"5432": "shop/db:1"}), workload("shop/p", "shop/tcp", "shop/front", 5432)}},
		"the same port of a proxy in the same place": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "ConfigMap ingress-nginx/second has this port, too", change: []func(*Cluster){
				configMap("ingress-nginx/second", map[string]string{"5432": "shop/db:1"}),
				workload("ingress-nginx/p", "ingress-nginx/second", "ingress-nginx/front", 5432), class("second", "ingress-nginx/second")},
			in: "shop"},
		"a port that the Service of the class has": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", change: []func(*Cluster){serves("ingress-nginx/front")}},
		"a port that another Service has": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "TCP/5432 is not open on Service ingress-nginx/web",
			change: []func(*Cluster){balancer("ingress-nginx/web", "", 443), serves("ingress-nginx/web")}},
		"a port that the nodes have": {
			port: "7000", entry: "shop/db:5432", want: "db:5432", held: true, says: "TCP/7000 is not open on Service ingress-nginx/front",
			change: []func(*Cluster){serves("ingress-nginx/front"), onNode(7000)}},
		"a port of another number": {
			port: "7000", entry: "shop/db:5432", want: "db:5432", held: true, says: "Service ingress-nginx/front opens it as port 5432",
			change: []func(*Cluster){serves("ingress-nginx/front"), leadsTo("ingress-nginx/front", 5432, 7000)}},
		"the number of another port": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "TCP/5432 is not open on Service ingress-nginx/front",
			change: []func(*Cluster){serves("ingress-nginx/front"), leadsTo("ingress-nginx/front", 5432, 7000)}},
		"a Service of the class that is away": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "there is no Service ingress-nginx/away",
			change: []func(*Cluster){serves("ingress-nginx/away")}},
		"a Service of the class that could not be read": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", held: true, says: "Service ingress-nginx/away could not be read",
			change: []func(*Cluster){serves("ingress-nginx/away"), func(c *Cluster) { c.MarkRead("Service", "shop") }}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWith(append([]func(*Cluster){
				configMap("ingress-nginx/tcp", map[string]string{tc.port: tc.entry}), class("public", "ingress-nginx/tcp"),
				workload("ingress-nginx/a", "ingress-nginx/tcp", "ingress-nginx/front", 80, 443, 5432),
			}, tc.change...)...)
			c.Services = uniqueFronts(c.Services)
			found, said := false, []string(nil)
			for _, d := range StreamsOf(c, Options{Namespace: tc.in}) {
				said = append(said, d.Decisions...)
				s, is := d.Object.(*v1beta1.StreamIngress)
				if !is || s.Spec.ClassName != "public" {
					continue
				}
				found = true
				got := s.Spec.Upstream.Service + ":" + s.Spec.Upstream.Port.String()
				if pp := s.Spec.ProxyProtocol; pp != nil {
					got += map[bool]string{true: " true", false: " false"}[pp.Accept] + map[bool]string{true: " true", false: " false"}[pp.Send]
				}
				if got != tc.want || d.Held != tc.held || s.Name != "public-tcp-"+tc.port {
					t.Errorf("got %s to %s, %v", s.Name, got, d.Held)
				}
			}
			if found != (tc.want != "") {
				t.Errorf("there is a stream: %v, %q", found, said)
			}
			if tc.says != "" || tc.change == nil {
				says(t, said, tc.says)
			}
		})
	}
}

// serves has the class open ports on a Service.
func serves(key string) func(*Cluster) {
	return func(c *Cluster) {
		c.Classes[0].Spec.Service = &v1beta1.ObjectReference{Namespace: keyOf(key).Namespace, Name: keyOf(key).Name}
	}
}

// onNode has a port of the nodes lead to that of the proxy.
func onNode(port int32) func(*Cluster) {
	return func(c *Cluster) {
		c.Workloads[0].HostPorts = map[stream.PortKey]int32{{Protocol: v1beta1.TCP, Port: port}: port}
	}
}

// leadsTo has a port of a Service lead to another one of the proxy.
func leadsTo(key string, port, target int32) func(*Cluster) {
	return func(c *Cluster) {
		ports := snapshot.Index(c.Services)[keyOf(key)].Spec.Ports
		i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return p.Port == port })
		ports[i].TargetPort = intstr.FromInt32(target)
	}
}

// TestStreamsOfAClassAlone holds that what anybody may run says nothing of how the proxy of a class reads its ConfigMap.
func TestStreamsOfAClassAlone(t *testing.T) {
	c := clusterWith(configMap("ingress-nginx/tcp", map[string]string{"5432": "shop/db:5432", "7000": "shop/db:5432"}),
		class("public", "ingress-nginx/tcp"), balancer("ingress-nginx/front", "", 5432), serves("ingress-nginx/front"),
		workload("evil/a", "ingress-nginx/tcp", "evil/front", 7000), onNode(7000), func(c *Cluster) {
			c.Workloads[0].Own, c.Workloads[0].OnNodes = sets.New[int32](5432), true
		})
	docs := StreamsOf(c, Options{})
	if len(docs) != 2 || docs[0].Object == nil || docs[0].Held || !docs[1].Held {
		t.Errorf("got %+v", docs)
	}
}

// TestUDP has words behind the port of an entry that UDP does not know.
func TestUDP(t *testing.T) {
	c := clusterWith(configMap("ingress-nginx/udp", map[string]string{"53": "shop/db:dns:PROXY", "54": "shop/db:dns"}))
	public := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	public.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: "ingress-nginx", Name: "udp"}
	c.Classes = append(c.Classes, public)
	docs := StreamsOf(c, Options{})
	says(t, docs[0].Decisions, "UDP has no PROXY protocol")
	if len(docs) != 2 || docs[1].Object.GetName() != "public-udp-54" || docs[1].Held {
		t.Errorf("got %+v", docs)
	}
}
