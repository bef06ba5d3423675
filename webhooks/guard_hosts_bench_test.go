package webhooks

import (
	"context"
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1 "k8s.io/api/admission/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// manyHosts is how many hosts an Ingress has that asks.
const manyHosts = 10

// BenchmarkHosts measures decisions on an Ingress of ten hosts of a HostPolicy that gives names to namespaces, which have as many as is said.
func BenchmarkHosts(b *testing.B) {
	for _, n := range []int{100, 1000, 10000, 65535} {
		w := hostsWorld(b, n)
		v := hostGuard{
			listenerGuard: listenerGuard{view: w.view, ledger: w.ledger, actions: guard.Actions{guard.Ingress: guard.Deny}},
			kind:          guard.Ingress, of: schema.GroupKind{Group: networkingv1.GroupName, Kind: "Ingress"},
		}
		fresh, late := ingressOf(team(0), "fresh"), ingressOf(team(1), "late", "app-0.example.com")
		for i := range manyHosts {
			addHost(fresh, fmt.Sprintf("fresh-%d.example.com", i))
		}
		b.Run(fmt.Sprintf("decision/names=%d", n), func(b *testing.B) {
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				request, err := v.request(ctx, guard.Ingress, nil, fresh)
				if err != nil {
					return err
				}
				verdict, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) hostname.Verdict {
					return hostname.Judge(f, request, v.ledger.GraceLeft)
				})
				if len(verdict.Problems) > 0 {
					return verdict.Problems[0].Err
				}
				return err
			})
		})
		paths := pathsWorld(b, n)
		r := exposure.PathRequest{Ingress: fresh, IsOwned: func(host string) bool { return paths.view.Hosts.Policies().Owner(host) != nil }}
		b.Run(fmt.Sprintf("paths/names=%d", n), func(b *testing.B) {
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				verdict, err := kube.Decide(ctx, paths.view, func(f *kube.Facts) exposure.PathVerdict {
					return exposure.JudgePaths(f, r, paths.ledger.GraceLeft)
				})
				if len(verdict.Problems) > 0 {
					return verdict.Problems[0].Err
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("refusal/names=%d", n), func(b *testing.B) {
			decideAll(b, admissionv1.Create, false, func(ctx context.Context) error {
				_, err := v.validate(ctx, nil, late)
				return err
			})
		})
	}
}

// hostsWorld is a world of n Ingresses of a host each, whose name is their namespace's.
func hostsWorld(b *testing.B, n int) *world {
	b.Helper()
	policy := &v1beta1.HostPolicy{ObjectMeta: meta("", "apps")}
	policy.Spec.Hosts, policy.Spec.Sharing = []string{"*.example.com"}, v1beta1.ShareNamespace
	objects := []client.Object{policy}
	var claims []*v1beta1.EdgeClaim
	for i := range n {
		host := fmt.Sprintf("app-%d.example.com", i)
		ing := ingressOf(team(i), fmt.Sprintf("app-%d", i), host)
		objects = append(objects, ing)
		claims = append(claims, claim.New(claim.Hostname(host), claim.Claimant{Holder: claim.NamespaceHolder(ing.Namespace), UID: ing.UID}))
	}
	w := newWorld(b, objects, claims)
	w.view.Hosts.Guarded = guard.Actions{guard.Ingress: guard.Deny}
	return w
}

// pathsWorld is a world of n Ingresses of a host each, of which no policy speaks.
func pathsWorld(b *testing.B, n int) *world {
	b.Helper()
	var objects []client.Object
	var claims []*v1beta1.EdgeClaim
	for i := range n {
		host := fmt.Sprintf("app-%d.example.org", i)
		ing := ingressOf(team(i), fmt.Sprintf("app-%d", i), host)
		objects = append(objects, ing)
		claims = append(claims, claim.New(claim.HTTP(host, "/"), claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID}))
	}
	return newWorld(b, objects, claims)
}

func ingressOf(namespace, name string, hosts ...string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: meta(namespace, name)}
	for _, host := range hosts {
		addHost(ing, host)
	}
	return ing
}

func addHost(ing *networkingv1.Ingress, host string) {
	ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: host})
}
