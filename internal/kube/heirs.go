package kube

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handed are the kinds that hand over what they hold, or what their namespace does for them.
var handed = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: v1beta1.GroupName, Kind: "StreamIngress"}: v1beta1.GroupVersion.WithKind("StreamIngress"),
	{Kind: "Service"}: corev1.SchemeGroupVersion.WithKind("Service"),
	{Group: networkingv1.GroupName, Kind: "Ingress"}: networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	{Kind: "Namespace"}: corev1.SchemeGroupVersion.WithKind("Namespace"),
}

func init() {
	for _, k := range hostRoutes {
		kind := schema.GroupKind{Group: gatewayv1.GroupName, Kind: string(k.kind)}
		handed[kind] = kind.WithVersion(gatewayv1.GroupVersion.Version)
	}
}

// HandsOver says whether the holder of a claim hands it over to another object of its kind, by the annotation as it is stored now: that is
// written a moment before the other object is applied. One that is gone does where it was promised. While replicas run that know of no
// heirs nobody does: these would release what was promised to one.
func (v *View) HandsOver(ctx context.Context, found *v1beta1.EdgeClaim, to claim.Claimant, promised bool) (bool, error) {
	if from := claim.HolderOf(found); from.Group != to.Group || from.Kind != to.Kind {
		return false, nil
	}
	if says, err := v.saysThatItHandsOver(ctx, found, to, promised); err != nil || !says {
		return false, err
	}
	return v.HeirsKnown(ctx)
}

// HeirsKnown says whether all replicas that run know of heirs of claims.
func (v *View) HeirsKnown(ctx context.Context) (bool, error) {
	unknown, err := v.Ingresses.withoutHeirs.run(ctx)
	return err == nil && !unknown, err
}

// saysThatItHandsOver is HandsOver whatever replicas run.
func (v *View) saysThatItHandsOver(ctx context.Context, found *v1beta1.EdgeClaim, to claim.Claimant, promised bool) (bool, error) {
	from := claim.HolderOf(found)
	at, err := claim.Of(found)
	switch {
	case err != nil:
		return false, nil //nolint:nilerr // not as Portcullis writes claims
	case from.IsNamespace():
		return v.namespaceHandsOver(ctx, from.Name, at, to.For, promised)
	case at.IsAddress() && from.IsService():
		return v.handsOverAddress(ctx, from, to.Holder, at.Address(), promised)
	}
	now, err := v.heirNow(ctx, from)
	return now.isThere && now.NamespacedName == to.Key() || !now.isThere && err == nil && promised, err
}

// namedHeir is whom a holder names, the zero name for nobody, and whether the holder is stored.
type namedHeir struct {
	types.NamespacedName
	isThere bool
}

// heirNow reads whom a holder names as it is stored now, once for all the points of a request, and for all who ask at a time.
func (v *View) heirNow(ctx context.Context, from claim.Holder) (namedHeir, error) {
	return claim.Once(ctx, from, func() (namedHeir, error) {
		read := func(ctx context.Context) (namedHeir, error) { return v.readHeir(ctx, from) }
		return v.heirs.get(ctx, from.Group+" "+from.String(), read)
	})
}

func (v *View) readHeir(ctx context.Context, from claim.Holder) (namedHeir, error) {
	kind, known := handed[schema.GroupKind{Group: from.Group, Kind: from.Kind}]
	if !known {
		return namedHeir{isThere: true}, nil
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	if err := v.tenants.Get(ctx, from.Key(), obj); err != nil {
		return namedHeir{}, client.IgnoreNotFound(err)
	}
	heir, _ := claim.NamedHeir(obj)
	return namedHeir{heir, true}, nil
}

// handsOverAddress says the same of a Service that has an address, or a port of one. It keeps what it names in spec.externalIPs, or has in
// front of the proxy of a class: that it does is read as it is stored now, too, as whoever has the point then would share it.
func (v *View) handsOverAddress(ctx context.Context, from, to claim.Holder, ip netip.Addr, promised bool) (bool, error) {
	svc, err := readBy[corev1.Service](ctx, v.tenants, from.Key())
	if err != nil {
		return false, err
	}
	if svc == nil {
		svc = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
	} else {
		heir, named := claim.NamedHeir(svc)
		promised = named && heir == to.Key()
	}
	if !promised {
		return false, nil
	}
	classes, err := ClassesOf(ctx, v.live)
	return err == nil && !allocator.KeepsPoints(frontsOf(classes), svc, ip), err
}

// Heir is to whom the holder of a point hands over what it holds, as far as the cache knows; the zero name for nobody.
func (v *View) Heir(ctx context.Context, from claim.Holder) (types.NamespacedName, error) {
	if !from.IsService() && !from.IsIngress() && !from.IsRoute() {
		return types.NamespacedName{}, nil
	}
	holder, err := v.Claims.holder(ctx, from)
	if err != nil || holder == nil {
		return types.NamespacedName{}, err
	}
	heir, _ := claim.NamedHeir(holder)
	return heir, nil
}

// HeirNow is to whom it does so now, as far as the cache knows.
func (v *View) HeirNow(ctx context.Context, from claim.Holder) (types.NamespacedName, error) {
	return v.Heir(ctx, from)
}

// HeirNow reads it past the cache: the annotation is written a moment before who is named asks for the point.
func (r LiveReader) HeirNow(ctx context.Context, from claim.Holder) (types.NamespacedName, error) {
	now, err := r.heirNow(ctx, from)
	return now.NamespacedName, err
}

// HandsOver says whether the holder of a point hands over what it holds to another object of its kind. Of one that does not, as far as the
// cache knows, admission asks past that. It asks of a few only, as each point of a request may be somebody else's; of the others the cache
// tells soon.
func (f *Facts) HandsOver(from, to claim.Holder) bool {
	if from.Group != to.Group || from.Kind != to.Kind {
		return false
	}
	return (f.heirs.of(f, from, f.from.Heir) == to.Key() || f.namesNow(from, to.Key())) && f.heirsKnown()
}

// heirsKnown says whether all replicas that run know of heirs of claims.
func (f *Facts) heirsKnown() bool {
	return once(f, f.from.HeirsKnown)
}

func (f *Facts) namesNow(from claim.Holder, heir types.NamespacedName) bool {
	isKnown := slices.ContainsFunc(f.heirsNow, func(r reply[claim.Holder, types.NamespacedName]) bool { return r.question == from })
	return (isKnown || len(f.heirsNow) < mostAnswers) && f.heirsNow.of(f, from, f.from.HeirNow) == heir
}

// ReferenceTo refers to the holder of a claim that hands over what it holds, or has it handed over. Of a namespace it is one within it:
// there those look who are to know.
func ReferenceTo(h v1beta1.ClaimHolder) *corev1.ObjectReference {
	if holder := claim.HolderOf(&v1beta1.EdgeClaim{Spec: v1beta1.EdgeClaimSpec{Holder: h}}); holder.IsNamespace() {
		h.Namespace, h.UID = h.Name, ""
	}
	kind := handed[schema.GroupKind{Group: h.Group, Kind: h.Kind}]
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, UID: h.UID,
	}
}

// ToInherit lists the claims of which an object is the heir.
func (c *Claims) ToInherit(ctx context.Context, heir claim.Holder) ([]*v1beta1.EdgeClaim, error) {
	return c.by(ctx, IndexHeir, heir.String())
}

// heirKeys are those under which IndexHeir finds a claim.
func heirKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.Heir == nil { // as most have none
		return nil
	}
	return []string{claim.HeirOf(c).String()}
}
