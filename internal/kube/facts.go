package kube

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// Facts are what the rules see of the cluster in one decision. A question is put to the cluster when a rule asks it; of those that
// recur the answer is kept, the first mostAnswers of a kind. All are answered by one reader, so that nobody mixes what a cache
// holds with what is stored now.
//
// A rule asks straight on: the first error of the cluster sticks, every question after it is answered with nothing, and
// Decide returns the error in place of what the rule made of that.
type Facts struct {
	ctx  context.Context //nolint:containedctx // facts live as long as the decision, and rules know of no context
	from Reader
	ask  features
	err  error
	loadBalancerReader
	// paths is the look at the paths of routes, nil until one is asked for.
	paths *pathLook

	claims     answers[string, *v1beta1.EdgeClaim]
	classes    answers[string, *v1beta1.StreamIngressClass]
	services   answers[types.NamespacedName, *corev1.Service]
	namespaces answers[string, labels.Set]
	held       answers[claim.Holder, []claim.Coordinate]
	ingresses  answers[types.NamespacedName, *networkingv1.Ingress]
	// ingressesNow are past the cache.
	ingressesNow answers[types.NamespacedName, *networkingv1.Ingress]
	defaults     answers[types.NamespacedName, exposure.Defaults]
	fronts       answers[struct{}, []types.NamespacedName]
	onNodes      answers[struct{}, []v1beta1.StreamIngressClass]
	standing     answers[types.NamespacedName, Standing]
	routes       answers[claim.Section, onSection]
	using        answers[string, []hostname.User]
	naming       answers[netip.Addr, []*corev1.Service]
	listing      answers[netip.Addr, []*corev1.Service]
	onNodePort   answers[claim.Coordinate, []*corev1.Service]
	heirs        answers[claim.Holder, types.NamespacedName]
	// heirsNow are past the cache.
	heirsNow answers[claim.Holder, types.NamespacedName]
	now      answers[types.NamespacedName, *corev1.Service]
	pools    *addresspool.Book
}

// Reader answers the questions of facts: a View from the cache, LiveReader also past it.
type Reader interface {
	Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	Class(ctx context.Context, name string) (*v1beta1.StreamIngressClass, error)
	Classes(ctx context.Context) ([]v1beta1.StreamIngressClass, error)
	ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error)
	Fronts(ctx context.Context) ([]types.NamespacedName, error)
	Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	ServiceNow(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
	AddressPool(ctx context.Context, name string) (*v1beta1.AddressPool, error)
	Granted(ctx context.Context, from string, service types.NamespacedName) (bool, error)
	Heir(ctx context.Context, from claim.Holder) (types.NamespacedName, error)
	HeirNow(ctx context.Context, from claim.Holder) (types.NamespacedName, error)
	HeirsKnown(ctx context.Context) (bool, error)
	features() features
}

// features answer what is asked of one feature, from the cache alone.
type features struct {
	claims        claimReader
	streams       streamReader
	targets       targetReader
	ingresses     ingressReader
	http          Exposing
	loadBalancers loadBalancerReader
	guard         *Gateways
	external      externalReader
	hosts         *Hosts
}

func (v *View) features() features {
	return features{v.Claims, v.Streams, v.Targets, v.Ingresses, v.Ingresses.Exposing, v.LoadBalancers, v.Gateways, v.ExternalIPs, v.Hosts}
}

// claimReader answers what is asked of several claims.
type claimReader interface {
	Held(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error)
	ToInherit(ctx context.Context, heir claim.Holder) ([]*v1beta1.EdgeClaim, error)
	OfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error)
	OnPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error)
	OnNodePorts(ctx context.Context) ([]*v1beta1.EdgeClaim, error)
	HostClaims(ctx context.Context, hosts claim.Coordinate) ([]*v1beta1.EdgeClaim, error)
	OnAddresses(ctx context.Context, in ...addresspool.Range) ([]*v1beta1.EdgeClaim, error)
}

// Decide has a rule decide by facts. An error is the first that the cluster gave for an answer; what the rule returned is
// of no worth then, and dropped.
func Decide[T any](ctx context.Context, from Reader, rule func(*Facts) T) (T, error) {
	ask := from.features()
	f := &Facts{ctx: ctx, from: from, ask: ask, loadBalancerReader: ask.loadBalancers}
	decided := rule(f)
	if f.err != nil {
		var none T
		return none, f.err
	}
	return decided, nil
}

// answers are those that were given in a decision, by the question. They are few, so that looking them through costs less
// than a map does; those beyond mostAnswers are not kept.
type answers[K comparable, V any] []reply[K, V]

type reply[K comparable, V any] struct {
	question K
	answer   V
}

const mostAnswers = 8

// of is the answer to a question: the one that was given before, or the one of ask.
func (a *answers[K, V]) of(f *Facts, question K, ask func(context.Context, K) (V, error)) V {
	for i := range *a {
		if (*a)[i].question == question {
			return (*a)[i].answer
		}
	}
	answer := once(f, func(ctx context.Context) (V, error) { return ask(ctx, question) })
	if f.err == nil && len(*a) < mostAnswers {
		*a = append(*a, reply[K, V]{question, answer})
	}
	return answer
}

// once puts a question that is asked once in a decision, nothing after an error.
func once[V any](f *Facts, ask func(context.Context) (V, error)) V {
	var none V
	if f.err != nil {
		return none
	}
	answer, err := ask(f.ctx)
	if err != nil {
		f.err = err
		return none
	}
	return answer
}

// Claim is the claim of a name, nil for none.
func (f *Facts) Claim(name string) *v1beta1.EdgeClaim { return f.claims.of(f, name, f.from.Claim) }

// Service is a Service, nil for none.
func (f *Facts) Service(key types.NamespacedName) *corev1.Service {
	return f.services.of(f, key, f.from.Service)
}

// NamespaceLabels are the labels of a namespace.
func (f *Facts) NamespaceLabels(name string) labels.Set {
	return f.namespaces.of(f, name, f.from.NamespaceLabels)
}

// Held are the points that a holder has claims on, in ascending order.
func (f *Facts) Held(by claim.Holder) []claim.Coordinate { return f.held.of(f, by, f.ask.claims.Held) }

// Promised are the points that others hand over to a holder.
func (f *Facts) Promised(to claim.Holder) []claim.Coordinate {
	return once(f, func(ctx context.Context) ([]claim.Coordinate, error) {
		promised, err := f.ask.claims.ToInherit(ctx, to)
		return coordinates(promised), err
	})
}

// ClaimsOfNamespace are the claims in a family of scopes that the objects of a namespace have; see claim.ScopeFamily. HTTP is
// none of these families.
func (f *Facts) ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) ([]*v1beta1.EdgeClaim, error) {
		return f.ask.claims.OfNamespace(ctx, namespace, family)
	})
}

// ClaimedPorts are the claims on ports of an address.
func (f *Facts) ClaimedPorts(ip netip.Addr) []*v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) ([]*v1beta1.EdgeClaim, error) { return f.ask.claims.OnPorts(ctx, ip) })
}

// NodePortClaims are the claims on ports of the nodes.
func (f *Facts) NodePortClaims() []*v1beta1.EdgeClaim { return once(f, f.ask.claims.OnNodePorts) }

// ClassesOnNodes are the classes without a Service, whose proxies are on the network of the nodes.
func (f *Facts) ClassesOnNodes() []v1beta1.StreamIngressClass {
	return f.onNodes.of(f, struct{}{}, func(ctx context.Context, _ struct{}) ([]v1beta1.StreamIngressClass, error) {
		return f.from.ClassesOnNodes(ctx)
	})
}

// Fronts are the Services that classes name. What is opened on those is for all, and they are an administrator's choice:
// limits for one Service, or one namespace, are not meant for them.
func (f *Facts) Fronts() []types.NamespacedName {
	return f.fronts.of(f, struct{}{}, func(ctx context.Context, _ struct{}) ([]types.NamespacedName, error) {
		return f.from.Fronts(ctx)
	})
}

var _, _ Reader = &View{}, LiveReader{}
