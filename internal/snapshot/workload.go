package snapshot

import (
	"cmp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Workload is a Deployment or a DaemonSet whose pods are proxies that read ConfigMaps of streams, as their arguments say.
type Workload struct {
	Kind, Namespace, Name string
	// Labels are those of its pods.
	Labels map[string]string
	// ConfigMaps are those that it reads, Publishes the Service that it says to be reached by, zero for none.
	ConfigMaps map[v1beta1.Protocol]types.NamespacedName
	Publishes  types.NamespacedName
	// IsNginx says that it is ingress-nginx, and OnNodes that it listens on the nodes.
	IsNginx, OnNodes bool
	// NodeSelector and NodeAffinity say on which nodes its pods are.
	NodeSelector map[string]string
	NodeAffinity *corev1.NodeAffinity
	// Own are the ports at which it listens itself, and Named those that its containers have names for.
	Own   sets.Set[int32]
	Named map[string]int32
	// HostPorts are the ports of the nodes by which its own are reached there, where it does not listen on the nodes itself.
	HostPorts map[stream.PortKey]int32
}

// The flags by which proxies are told where their streams are. HAProxy's own controller has the words in another order.
var configMapFlags = map[string]v1beta1.Protocol{
	"tcp-services-configmap": v1beta1.TCP, "udp-services-configmap": v1beta1.UDP,
	"configmap-tcp-services": v1beta1.TCP, "configmap-udp-services": v1beta1.UDP,
}

// ownFlags are the ports that ingress-nginx keeps for itself, with their defaults. It leaves out entries for them, of TCP and of UDP.
var ownFlags = map[string]int32{
	"http-port": 80, "https-port": 443, "ssl-passthrough-proxy-port": 442, "healthz-port": 10254, "default-server-port": 8181,
	"profiler-port": 10245, "status-port": 10246, "stream-port": 10247,
}

// OfDeployment is a Deployment as a proxy; ok is false for one that reads no ConfigMap of streams.
func OfDeployment(d *appsv1.Deployment) (w Workload, ok bool) {
	return workload(Workload{Kind: "Deployment", Namespace: d.Namespace, Name: d.Name}, &d.Spec.Template)
}

// OfDaemonSet is a DaemonSet as a proxy; ok is false for one that reads no ConfigMap of streams.
func OfDaemonSet(d *appsv1.DaemonSet) (w Workload, ok bool) {
	return workload(Workload{Kind: "DaemonSet", Namespace: d.Namespace, Name: d.Name}, &d.Spec.Template)
}

func workload(w Workload, pod *corev1.PodTemplateSpec) (Workload, bool) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		flags := flagsOf(c, w.Namespace)
		reads := map[v1beta1.Protocol]types.NamespacedName{}
		for flag, protocol := range configMapFlags {
			if key := parseKey(flags[flag]); key.Name != "" {
				reads[protocol] = key
			}
		}
		if len(reads) == 0 {
			continue
		}
		w.ConfigMaps, w.Publishes, w.Labels, w.OnNodes = reads, parseKey(flags["publish-service"]), pod.Labels, pod.Spec.HostNetwork
		w.NodeSelector = pod.Spec.NodeSelector
		if pod.Spec.Affinity != nil {
			w.NodeAffinity = pod.Spec.Affinity.NodeAffinity
		}
		_, has := flags["/nginx-ingress-controller"]
		w.IsNginx = has || strings.HasPrefix(flags["controller-class"], NginxController) || strings.Contains(c.Image, "ingress-nginx")
		w.Own, w.Named, w.HostPorts = ownPorts(flags), map[string]int32{}, map[stream.PortKey]int32{}
		if !w.IsNginx {
			w.Own = bindPorts(flags)
		}
		for _, p := range c.Ports {
			if p.Name != "" {
				w.Named[p.Name] = p.ContainerPort
			}
			if p.HostPort != 0 {
				w.HostPorts[stream.PortKey{Protocol: v1beta1.Protocol(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: p.ContainerPort}] = p.HostPort
			}
		}
		return w, true
	}
	return w, false
}

// flagsOf are the flags of a container, by name; what is no flag has an empty value. The variable of its namespace is filled in.
func flagsOf(c *corev1.Container, namespace string) map[string]string {
	flags := map[string]string{}
	words := append(append([]string{}, c.Command...), c.Args...)
	for i, word := range words {
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if strings.HasPrefix(word, "-") && !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1]
		}
		flags[name] = strings.NewReplacer("$(POD_NAMESPACE)", namespace).Replace(value)
	}
	return flags
}

// ownPorts are the ports that a proxy keeps for itself.
func ownPorts(flags map[string]string) sets.Set[int32] {
	own := sets.New[int32]()
	for flag, port := range ownFlags {
		given, _ := strconv.ParseInt(flags[flag], 10, 32)
		own.Insert(cmp.Or(int32(given), port))
	}
	return own
}

// bindPorts are the ports at which one of HAProxy's controllers listens itself: those of its flags, and the usual ones.
func bindPorts(flags map[string]string) sets.Set[int32] {
	usual := map[string]int32{"http-bind-port": 80, "https-bind-port": 443}
	own := sets.New[int32]()
	for flag, value := range flags {
		given, err := strconv.ParseInt(value, 10, 32)
		if err == nil && given > 0 && strings.HasSuffix(flag, "-bind-port") {
			own.Insert(int32(given))
			delete(usual, flag)
		}
	}
	for _, port := range usual {
		own.Insert(port)
	}
	return own
}

// parseKey reads namespace/name, zero for anything else and for what no object can be called.
func parseKey(text string) types.NamespacedName {
	namespace, name, found := strings.Cut(text, "/")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
