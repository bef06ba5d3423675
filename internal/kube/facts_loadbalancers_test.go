package kube

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// failingReader reads a cluster with some pools, in which the Service shop/x has a claim on everything. It counts the questions,
// and gives an error for an answer to the one that is failing.
type failingReader struct {
	Reader
	claimReader
	loadBalancerReader
	book *addresspool.Book
	// naming are those that name any address, and maxPorts how many ports one gets, 1 if it is not set.
	naming   []*corev1.Service
	maxPorts int
	asked    map[string]int
	failing  string
}

func (r *failingReader) features() features {
	return features{claims: r, loadBalancers: r, external: r}
}

func (r *failingReader) ask(question string) error {
	r.asked[question]++
	if question == r.failing {
		return errAway
	}
	return nil
}

// theirs is the claim of shop/x on a point.
func theirs(at claim.Coordinate) *v1beta1.EdgeClaim {
	return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "x"), UID: "x", Generation: 1})
}

func (r *failingReader) Pools() *addresspool.Book { return r.book }

func (r *failingReader) MaxPorts() int { return max(r.maxPorts, 1) }

func (r *failingReader) Naming(context.Context, netip.Addr) ([]*corev1.Service, error) {
	return r.naming, r.ask("Naming")
}

func (r *failingReader) Listing(context.Context, netip.Addr) ([]*corev1.Service, error) {
	return []*corev1.Service{served("x", "192.0.2.1", 80)}, r.ask("Listing")
}

func (r *failingReader) ListingOnNodes(context.Context, claim.Coordinate) ([]*corev1.Service, error) {
	return []*corev1.Service{served("x", "192.0.2.1", 80)}, r.ask("ListingOnNodes")
}

func (r *failingReader) ServiceNow(context.Context, types.NamespacedName) (*corev1.Service, error) {
	return nil, r.ask("ServiceNow")
}

func (r *failingReader) IsNodeAddress(context.Context, netip.Addr) (bool, error) {
	return true, r.ask("IsNodeAddress")
}

func (r *failingReader) ReservedNodePorts() loadbalancer.PortRanges { return nil }

func (r *failingReader) FreeAddress(
	pool *addresspool.Pool, family corev1.IPFamily, _ func(netip.Addr) []claim.Coordinate,
) (netip.Addr, bool) {
	return pool.Set.FirstFree(family)
}

func (r *failingReader) Claim(context.Context, string) (*v1beta1.EdgeClaim, error) {
	return nil, r.ask("Claim")
}

func (r *failingReader) Service(context.Context, types.NamespacedName) (*corev1.Service, error) {
	return nil, r.ask("Service")
}

func (r *failingReader) NamespaceLabels(context.Context, string) (labels.Set, error) {
	return nil, r.ask("NamespaceLabels")
}

func (r *failingReader) OfNamespace(context.Context, string, string) ([]*v1beta1.EdgeClaim, error) {
	return []*v1beta1.EdgeClaim{theirs(claim.Address(netip.MustParseAddr("192.0.2.2")))}, r.ask("ClaimsOfNamespace")
}

func (r *failingReader) OnPorts(_ context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	return []*v1beta1.EdgeClaim{theirs(claim.AddressPort(ip, "TCP", 80))}, r.ask("ClaimedPorts")
}

func (r *failingReader) OnNodePorts(context.Context) ([]*v1beta1.EdgeClaim, error) {
	return []*v1beta1.EdgeClaim{theirs(claim.NodePort("TCP", 80))}, r.ask("NodePortClaims")
}

func (r *failingReader) OnAddresses(context.Context, ...addresspool.Range) ([]*v1beta1.EdgeClaim, error) {
	return []*v1beta1.EdgeClaim{theirs(claim.Address(netip.MustParseAddr("192.0.2.1")))}, r.ask("AddressClaims")
}

func (r *failingReader) ClassesOnNodes(context.Context) ([]v1beta1.StreamIngressClass, error) {
	return make([]v1beta1.StreamIngressClass, 1), r.ask("ClassesOnNodes")
}

func (r *failingReader) Fronts(context.Context) ([]types.NamespacedName, error) {
	return nil, r.ask("Fronts")
}

func (r *failingReader) AddressPool(context.Context, string) (*v1beta1.AddressPool, error) {
	return nil, r.ask("AddressPool")
}

// TestNoDecisionOnAFailedQuestion has every rule of load balancers and pools decide, and then each question that it asks fail in
// turn: the error is all that comes of it.
func TestNoDecisionOnAFailedQuestion(t *testing.T) {
	limited, nodes := addressPool("a", "1", 1, "192.0.2.0/28"), addressPool("nodes", "2", 1)
	limited.Spec.MaxPerNamespace, nodes.Spec.Source = 1, v1beta1.SourceNodeIP
	book := addresspool.NewBook([]*v1beta1.AddressPool{limited, nodes, addressPool("b", "3", 1, "198.51.100.1")})
	poolOf := func(name string) *addresspool.Pool {
		verdict, _ := book.Verdict(name)
		return verdict.Pool
	}
	subject := func(annotation, value string, held ...claim.Coordinate) *allocator.Subject {
		svc := &corev1.Service{}
		svc.Namespace, svc.Name, svc.Annotations = "shop", "web", map[string]string{annotation: value}
		svc.Spec.Type, svc.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv4Protocol}
		svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
		for _, at := range held {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: at.Address().String()})
		}
		request, _ := loadbalancer.RequestOf(svc)
		return &allocator.Subject{Service: svc, Request: request, Held: held}
	}
	listing := func(at claim.Coordinate) *allocator.Subject {
		s := subject("", "", at)
		s.Held = nil
		return s
	}
	grace := func(*v1beta1.EdgeClaim) time.Duration { return time.Minute }
	at := claim.Address(netip.MustParseAddr("198.51.100.1"))
	all := map[string]int{}
	for name, rule := range map[string]func(*Facts) any{
		"a pool that is limited": func(f *Facts) any { return allocator.Allocate(f, subject(v1beta1.AnnotationAddressPool, "a"), grace) },
		"a pool of the nodes": func(f *Facts) any {
			return allocator.Allocate(f, subject(v1beta1.AnnotationAddressPool, "nodes"), grace)
		},
		"an address": func(f *Facts) any {
			return allocator.Allocate(f, subject(v1beta1.AnnotationAddresses, "198.51.100.1"), grace)
		},
		"a pool not read yet": func(f *Facts) any { return allocator.Allocate(f, subject(v1beta1.AnnotationAddressPool, "new"), grace) },
		"what is forwarded":   func(f *Facts) any { return allocator.Forwarded(f, subject("", "", at), grace) },
		"what is retained":    func(f *Facts) any { return allocator.Retained(f, subject("", "", at)) },
		"what is given":       func(f *Facts) any { return allocator.Gives(f, subject("", "").Service, at.Address()) },
		"what is entered":     func(f *Facts) any { return allocator.Enter(f, listing(at)) },
		"nodes are entered": func(f *Facts) any {
			return allocator.Enter(f, listing(claim.Address(netip.MustParseAddr("203.0.113.1"))))
		},
		"what is asked for":   func(f *Facts) any { return allocator.AsksForPoint(f, subject("", "", at), at) },
		"who loses nodes":     func(f *Facts) any { return loadbalancer.PoolUsers(f, poolOf("nodes"), nil, nil) },
		"who loses addresses": func(f *Facts) any { return loadbalancer.PoolUsers(f, poolOf("a"), nil, nil) },
	} {
		r := &failingReader{book: book, asked: map[string]int{}}
		if decided, err := Decide(t.Context(), r, rule); err != nil || decided == nil {
			t.Fatalf("%s: %v, %v", name, decided, err)
		}
		asked := maps.Clone(r.asked)
		maps.Copy(all, asked)
		for r.failing = range asked {
			if decided, err := Decide(t.Context(), r, rule); decided != nil || !errors.Is(err, errAway) {
				t.Errorf("%s: when %s fails it is %v, %v", name, r.failing, decided, err)
			}
		}
	}
	want := []string{"AddressClaims", "AddressPool", "Claim", "ClaimedPorts", "ClaimsOfNamespace", "ClassesOnNodes", "Fronts", "IsNodeAddress", "Listing", "ListingOnNodes",
		"NamespaceLabels", "NodePortClaims", "Service", "ServiceNow"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("asked are %v, want every question: %v", got, want)
	}
}
