package claims

import (
	"context"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/audit"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// atOnce is how many objects are read at once.
const atOnce = 500

// gather reads both sides. The claims come first: a port is claimed before it is opened, so that what opens meanwhile
// looks as if it had no claim, for one look.
func (a *auditor) gather(ctx context.Context) (*audit.Facts, error) {
	facts := audit.NewFacts()
	held, err := a.gatherClaims(ctx, facts)
	if err != nil {
		return nil, err
	}
	var pools v1beta1.AddressPoolList
	if err := a.Live.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("listing %T: %w", &pools, err)
	}
	for i := range pools.Items {
		facts.AddPool(&pools.Items[i])
		held.addresses = true // that may be given away
	}
	if err := each(kube.Pages[v1beta1.StreamIngressList](ctx, a.Live, atOnce), facts.AddStream); err != nil {
		return nil, err
	}
	if err := each(kube.Pages[networkingv1.IngressList](ctx, a.Live, atOnce), func(ing *networkingv1.Ingress) {
		facts.AddIngress(ing, a.View.Ingresses.MaxHTTPPoints)
	}); err != nil {
		return nil, err
	}
	if err := a.gatherServices(ctx, facts, held); err != nil {
		return nil, err
	}
	if held.guarded {
		if err := ignoreNoMatch(a.gatherGuarded(ctx, facts)); err != nil {
			return nil, err
		}
	}
	if err := a.gatherNames(ctx, facts, held); err != nil {
		return nil, err
	}
	return facts, a.gatherClasses(ctx, facts)
}

// each does something with each object of some pages.
func each[L client.ObjectList, O client.Object](pages iter.Seq2[L, error], do func(O)) error {
	for page, err := range pages {
		if err != nil {
			return err
		}
		if err := meta.EachListItem(page, func(obj runtime.Object) error {
			do(obj.(O))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// gatherNames reads which host names some namespaces use, and which paths their routes serve.
func (a *auditor) gatherNames(ctx context.Context, facts *audit.Facts, held heldAll) error {
	look := a.View.Hosts.Look(a.Live)
	for namespace := range held.names.Union(held.routePaths) {
		stored, err := look.In(ctx, namespace, held.names.Has(namespace), held.routePaths.Has(namespace))
		if err != nil {
			return err
		}
		facts.AddNames(namespace, stored.Hosts, stored.Paths)
	}
	return a.gatherPaths(ctx, facts)
}

// gatherPaths reads which paths routes serve on Gateways: of the cache, as with routes that are on listeners.
func (a *auditor) gatherPaths(ctx context.Context, facts *audit.Facts) error {
	policies := a.View.Hosts.Policies()
	err := a.View.Hosts.EachPath(ctx, func(route hostname.User, at claim.Coordinate) {
		if policies.Owner(at.Host()) == nil {
			facts.AddRoutePath(audit.Object{Holder: route.Holder, UID: route.UID}, at)
		}
	})
	if kube.IsUnread(err) {
		return nil
	}
	return err
}

// heldAll says what has to be read for what is claimed.
type heldAll struct {
	// paths and addresses say what Services have: reading them whole costs most of all.
	paths, addresses bool
	// guarded says that something on Gateways is.
	guarded bool
	// names and routePaths are the namespaces that have host names, and paths of routes.
	names, routePaths sets.Set[string]
}

// gatherClaims reads the ledger.
func (a *auditor) gatherClaims(ctx context.Context, facts *audit.Facts) (heldAll, error) {
	held := heldAll{names: sets.New[string](), routePaths: sets.New[string]()}
	err := each(kube.Pages[v1beta1.EdgeClaimList](ctx, a.Live, atOnce), func(c *v1beta1.EdgeClaim) {
		facts.AddClaim(c, a.Ledger.GraceLeft(c) > 0)
		holder, at := claim.HolderOf(c), coordinateOf(c)
		held.paths = held.paths || holder.IsService() && at.IsHTTP()
		held.addresses = held.addresses || holder.IsService() && (at.IsAddress() || at.IsNode())
		switch family := claim.ScopeFamily(c.Spec.Scope); {
		case family == claim.HostnameScope:
			held.names.Insert(holder.Name)
		case family == claim.HTTPScope && holder.IsNamespace():
			held.routePaths.Insert(holder.Name)
		case family == claim.GatewayScope, family == claim.RouteScope:
			held.guarded = true
		}
	})
	return held, err
}

// ignoreNoMatch is an error unless it says that a kind is not installed.
func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// gatherGuarded reads all that can listen on Gateways. The error is one that meta.IsNoMatchError knows where these are not installed.
func (a *auditor) gatherGuarded(ctx context.Context, facts *audit.Facts) error {
	if err := each(kube.Pages[gatewayv1.GatewayList](ctx, a.Live, atOnce), facts.AddGateway); err != nil {
		return err
	}
	if err := each(kube.Pages[gatewayv1.ListenerSetList](ctx, a.Live, atOnce), facts.AddListenerSet); err != nil {
		return err
	}
	routes, err := a.View.Gateways.GuardedIn(ctx, "") // there are many more of them than matter, and what is asked of them is in the cache
	for _, r := range routes {
		facts.AddRoute(r)
	}
	if kube.IsUnread(err) {
		return nil
	}
	return err
}

// gatherServices reads what Services ask for. Where no address is given away, their metadata says it.
func (a *auditor) gatherServices(ctx context.Context, facts *audit.Facts, held heldAll) error {
	defaults := a.View.Ingresses.Defaults
	switch {
	case held.addresses:
		return each(kube.Pages[corev1.ServiceList](ctx, a.Live, atOnce), func(svc *corev1.Service) {
			facts.AddService(svc, defaults)
			facts.AddLoadBalancer(svc)
		})
	case held.paths:
		return each(kube.PagesOf(ctx, a.Live, serviceMetadata, atOnce), func(svc *metav1.PartialObjectMetadata) {
			facts.AddService(svc, defaults)
		})
	default:
		return nil
	}
}

// serviceMetadata is an empty list of the metadata of Services.
func serviceMetadata() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	return list
}

// gatherClasses reads the classes and what they write to.
func (a *auditor) gatherClasses(ctx context.Context, facts *audit.Facts) error {
	var classes v1beta1.StreamIngressClassList
	if err := a.Live.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing %T: %w", &classes, err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		targets := audit.Targets{ConfigMaps: map[v1beta1.Protocol]*corev1.ConfigMap{}}
		for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
			cm := &corev1.ConfigMap{}
			if found, err := a.target(ctx, class.ConfigMap(protocol), cm); err != nil {
				return err
			} else if found {
				targets.ConfigMaps[protocol] = cm
			}
		}
		svc := &corev1.Service{}
		if found, err := a.target(ctx, class.Spec.Service, svc); err != nil {
			return err
		} else if found {
			targets.Service = svc
		}
		if err := a.gatherGateway(ctx, class, &targets); err != nil {
			return err
		}
		facts.AddClass(class, targets)
	}
	return nil
}

// gatherGateway reads the Gateway of a class, and what is attached to it.
func (a *auditor) gatherGateway(ctx context.Context, class *v1beta1.StreamIngressClass, targets *audit.Targets) error {
	gateway := &gatewayv1.Gateway{}
	found, err := a.target(ctx, class.Spec.Gateway, gateway)
	if meta.IsNoMatchError(err) || err == nil && !found {
		return nil
	}
	if err != nil {
		return err
	}
	targets.Gateway = gateway
	if err := each(kube.Pages[gatewayv1.GatewayList](ctx, a.Live, atOnce), func(other *gatewayv1.Gateway) {
		if other.UID != gateway.UID && stream.HaveInCommon(gateway, other) {
			targets.Sharing = append(targets.Sharing, other)
		}
	}); err != nil {
		return err
	}
	return a.gatherListeners(ctx, append([]*gatewayv1.Gateway{gateway}, targets.Sharing...), targets)
}

// gatherListeners reads what is attached to some Gateways.
func (a *auditor) gatherListeners(ctx context.Context, gateways []*gatewayv1.Gateway, targets *audit.Targets) error {
	for page, err := range kube.Pages[gatewayv1.ListenerSetList](ctx, a.Live, atOnce) {
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			set := &page.Items[i]
			at := slices.IndexFunc(gateways, func(g *gatewayv1.Gateway) bool { return kube.GatewayOf(set) == client.ObjectKeyFromObject(g) })
			if at < 0 {
				continue
			}
			attaches, err := a.View.Gateways.Attaches(ctx, gateways[at], set)
			if err != nil {
				return err
			}
			if attaches {
				targets.ListenerSets = append(targets.ListenerSets, *set)
			}
		}
	}
	return nil
}

// target reads an object that a class names; found is false when there is none.
func (a *auditor) target(ctx context.Context, ref *v1beta1.ObjectReference, into client.Object) (found bool, err error) {
	if ref == nil {
		return false, nil
	}
	err = a.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, into)
	return err == nil, client.IgnoreNotFound(err)
}
