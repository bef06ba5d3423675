package findings

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// ingress is one of a class for points, of which those that end with a $ are exact.
func ingress(key string, hours int, class string, points ...string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: meta(key, hours)}
	if class != "" {
		ing.Spec.IngressClassName = &class
	}
	for _, point := range points {
		host, path, _ := strings.Cut(point, "/")
		kind := ptr.To(networkingv1.PathTypePrefix)
		if strings.HasSuffix(path, "$") {
			path, kind = strings.TrimSuffix(path, "$"), ptr.To(networkingv1.PathTypeExact)
		}
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/" + path, PathType: kind}}},
		}})
	}
	return ing
}

func annotated(ing *networkingv1.Ingress, name, value string) *networkingv1.Ingress {
	ing.Annotations = map[string]string{name: value}
	return ing
}

// served has an address, a name, or both.
func served(ing *networkingv1.Ingress, ip, name string) *networkingv1.Ingress {
	ing.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: ip, Hostname: name}}
	return ing
}

var (
	nginx = &networkingv1.IngressClass{ObjectMeta: meta("nginx", 0), Spec: networkingv1.IngressClassSpec{Controller: snapshot.NginxController}}
	other = &networkingv1.IngressClass{ObjectMeta: meta("other", 0), Spec: networkingv1.IngressClassSpec{Controller: "example.com/other"}}
)

func ingresses(all ...*networkingv1.Ingress) snapshot.Snapshot {
	return snapshot.Snapshot{IngressClasses: []*networkingv1.IngressClass{nginx, other}, Ingresses: all}
}

// shares is a policy by which namespaces share hosts.
func shares(s snapshot.Snapshot, sharing v1beta1.HostSharing, hosts ...string) snapshot.Snapshot {
	s.HostPolicies = []*v1beta1.HostPolicy{{ObjectMeta: meta("policy", 0), Spec: v1beta1.HostPolicySpec{Hosts: hosts, Sharing: sharing}}}
	return s
}

var pathRows = map[string]row{
	"paths beside each other": {
		in: ingresses(ingress("a/x", 0, "nginx", "shop.example.com/"), ingress("a/y", 1, "nginx", "shop.example.com/api")),
	},
	"ingress-nginx serves the oldest": {
		in:   ingresses(ingress("a/y", 1, "nginx", "shop.example.com/api"), ingress("a/x", 2, "nginx", "shop.example.com/api/")),
		want: []string{"PathTwice shop.example.com/api: Ingress a/y and Ingress a/x, Ingress a/y"},
	},
	"ingress-nginx serves the last by name of those as old": {
		in:   ingresses(ingress("a/x", 1, "nginx", "shop.example.com/"), ingress("a/y", 1, "nginx", "shop.example.com/")),
		want: []string{"PathTwice shop.example.com/: Ingress a/y and Ingress a/x, Ingress a/y"},
	},
	"a path, and the same one exactly": {
		in: ingresses(ingress("a/x", 1, "nginx", "shop.example.com/api"), ingress("a/y", 2, "nginx", "shop.example.com/api$"),
			ingress("a/x", 1, "other", "shop.example.com/api"), ingress("a/y", 2, "other", "shop.example.com/api$")),
	},
	"an exact path twice": {
		in:   ingresses(ingress("a/x", 1, "nginx", "shop.example.com/api$"), ingress("a/y", 2, "nginx", "shop.example.com/api$")),
		want: []string{"PathTwice shop.example.com/api: Ingress a/x and Ingress a/y, Ingress a/x"},
	},
	"nobody knows whom others serve": {
		in:   ingresses(ingress("a/x", 1, "other", "/"), ingress("a/y", 2, "other", "/")),
		want: []string{"PathTwice */: Ingress a/x and Ingress a/y, undetermined"},
	},
	"classes do not meet": {
		in: ingresses(ingress("a/x", 1, "other", "shop.example.com/"), ingress("b/y", 2, "nginx", "shop.example.com/")),
	},
	"a class by annotation, and one by default": {
		in: func() snapshot.Snapshot {
			byDefault := other.DeepCopy()
			byDefault.Annotations = map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}
			return snapshot.Snapshot{IngressClasses: []*networkingv1.IngressClass{byDefault}, Ingresses: []*networkingv1.Ingress{
				ingress("a/x", 0, "", "shop.example.com/"), annotated(ingress("a/y", 1, "", "shop.example.com/"), "kubernetes.io/ingress.class", "other"),
			}}
		}(),
		want: []string{"PathTwice shop.example.com/: Ingress a/x and Ingress a/y, undetermined"},
	},
	"a canary, and a path that one Ingress lists twice": {
		in: ingresses(
			ingress("a/x", 1, "nginx", "shop.example.com/", "shop.example.com/"),
			annotated(ingress("a/y", 2, "nginx", "shop.example.com/"), canaryAnnotation, "true"),
		),
	},
	"a canary in another spelling, and those of other classes": {
		in: ingresses(
			ingress("a/x", 1, "nginx", "shop.example.com/"), ingress("a/x", 1, "unread", "shop.example.com/"),
			ingress("a/x", 1, "other", "shop.example.com/"), annotated(ingress("a/z", 2, "other", "shop.example.com/"), canaryAnnotation, "true"),
			annotated(ingress("a/y", 2, "nginx", "shop.example.com/"), canaryAnnotation, "T"),
			annotated(ingress("a/y", 2, "unread", "shop.example.com/"), canaryAnnotation, "1"),
		),
	},
	"what looks as a canary, and is none": {
		in: ingresses(
			ingress("a/x", 1, "nginx", "shop.example.com/"), annotated(ingress("a/y", 2, "nginx", "shop.example.com/"), canaryAnnotation, "yes"),
		),
		want: []string{"PathTwice shop.example.com/: Ingress a/x and Ingress a/y, Ingress a/x"},
	},
	"load balancers of their own": {
		in: ingresses(
			served(ingress("a/x", 1, "other", "/"), "192.0.2.1", ""), served(ingress("a/y", 2, "other", "/"), "", "lb.example.com"),
			ingress("a/not-yet", 3, "other", "/"), served(ingress("b/x", 1, "other", "shop.example.com/x"), "192.0.2.3", ""),
			served(ingress("c/x", 1, "other", "shop.example.com/y"), "192.0.2.4", ""), ingress("d/not-yet", 1, "other", "shop.example.com/z"),
		),
	},
	"one load balancer of several": {
		in: ingresses(
			served(ingress("a/x", 1, "other", "/"), "192.0.2.1", ""), served(ingress("b/y", 2, "other", "/"), "::ffff:192.0.2.1", "LB.example.com"),
			served(ingress("c/z", 3, "other", "/", "shop.example.com/z"), "", "lb.example.com"), served(ingress("a/elsewhere", 0, "other", "/"), "192.0.2.4", ""),
			served(ingress("a/elsewhere", 0, "other", "shop.example.com/a"), "192.0.2.4", ""),
			served(ingress("a/here", 4, "other", "shop.example.com/b"), "192.0.2.1", "lb.example.com"),
		),
		want: []string{
			"PathTwice */: Ingress a/x, Ingress b/y and Ingress c/z, undetermined",
			"HostInNamespaces shop.example.com: Ingress c/z and Ingress a/here, undetermined",
		},
	},
	"one that has no address yet": {
		in:   ingresses(served(ingress("a/x", 1, "other", "/"), "192.0.2.1", ""), ingress("a/y", 2, "other", "/")),
		want: []string{"PathTwice */: Ingress a/x and Ingress a/y, undetermined"},
	},
	"entry points of Traefik": {
		in: ingresses(
			annotated(ingress("a/x", 1, "other", "shop.example.com/"), entryPointsAnnotation, "web"),
			annotated(ingress("a/y", 2, "other", "shop.example.com/"), entryPointsAnnotation, "websecure, other"),
		),
	},
	"an entry point of Traefik that is the same": {
		in: ingresses(
			annotated(ingress("a/x", 1, "other", "shop.example.com/"), entryPointsAnnotation, "web,websecure"),
			annotated(ingress("a/y", 2, "other", "shop.example.com/"), entryPointsAnnotation, "websecure"),
			annotated(ingress("a/z", 3, "other", "shop.example.com/"), entryPointsAnnotation, "else"),
		),
		want: []string{"PathTwice shop.example.com/: Ingress a/x and Ingress a/y, undetermined"},
	},
	"an entry point of Traefik, and all of them": {
		in: ingresses(
			annotated(ingress("a/x", 1, "other", "shop.example.com/"), entryPointsAnnotation, "web"), ingress("a/y", 2, "other", "shop.example.com/"),
		),
		want: []string{"PathTwice shop.example.com/: Ingress a/x and Ingress a/y, undetermined"},
	},
	"a host of two namespaces": {
		in: ingresses(ingress("b/x", 2, "nginx", "shop.example.com/b"), ingress("b/older", 0, "nginx", "shop.example.com/older"),
			ingress("a/x", 1, "nginx", "shop.example.com/a")),
		want: []string{"HostInNamespaces shop.example.com: Ingress b/older and Ingress a/x, Ingress b/older"},
	},
	"an alias": {
		in: ingresses(annotated(ingress("b/x", 0, "nginx", "b.example.com/"), v1beta1.AnnotationServerAlias, "a.example.com"),
			ingress("a/x", 1, "nginx", "a.example.com/")),
		want: []string{"HostInNamespaces a.example.com: Ingress b/x and Ingress a/x, Ingress b/x"},
	},
	"a host that a policy lets namespaces share": {
		in: shares(ingresses(ingress("b/x", 0, "nginx", "shop.example.com/b"), ingress("a/x", 1, "nginx", "shop.example.com/a")),
			v1beta1.SharePaths, "*.example.com"),
	},
	"a host that a policy gives to a namespace": {
		in: shares(ingresses(ingress("b/x", 0, "other", "shop.example.com/b"), ingress("a/x", 1, "other", "shop.example.com/a")),
			v1beta1.ShareNamespace, "*.example.com"),
		want: []string{"HostInNamespaces shop.example.com: Ingress b/x and Ingress a/x, undetermined"},
	},
}

// TestHostsOfUnknownPolicies holds that nobody is said to have another's host where a policy may let them share it that was not read.
func TestHostsOfUnknownPolicies(t *testing.T) {
	in := ingresses(ingress("b/x", 0, "nginx", "shop.example.com/b"), ingress("a/x", 1, "nginx", "shop.example.com/a"))
	selecting := shares(in, v1beta1.SharePaths, "*.example.com")
	selecting.HostPolicies[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	owned := shares(in, v1beta1.ShareNamespace, "*.example.com")
	for name, row := range map[string]struct {
		in   snapshot.Snapshot
		read []string
		want int
	}{
		"policies that were not read":              {in, []string{"Ingress", "Namespace"}, 0},
		"no policies":                              {in, []string{"Ingress", "HostPolicy"}, 1},
		"labels that were not read":                {selecting, []string{"Ingress", "HostPolicy"}, 0},
		"labels that were read":                    {selecting, []string{"Ingress", "HostPolicy", "Namespace"}, 1},
		"a policy that gives hosts to a namespace": {owned, []string{"Ingress", "HostPolicy"}, 1},
	} {
		for _, kind := range row.read {
			row.in.MarkRead(kind, "")
		}
		if found := hosts(&row.in); len(found) != row.want {
			t.Errorf("%s: got %+v", name, found)
		}
		misses := slices.ContainsFunc(Rules(), func(a About) bool { return a.Rule == HostInNamespaces && a.Misses(&row.in, "") == "HostPolicy" })
		if misses == slices.Contains(row.read, "HostPolicy") {
			t.Errorf("%s: policies are missed: %v", name, misses)
		}
	}
}
