package claim

import (
	"cmp"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Holder names an object that can hold claims. It is comparable.
type Holder struct {
	Group, Kind, Namespace, Name string
}

// HolderOf is the holder of a claim.
func HolderOf(c *v1beta1.EdgeClaim) Holder {
	return holderIn(c.Spec.Holder)
}

func holderIn(h v1beta1.ClaimHolder) Holder {
	return Holder{Group: h.Group, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name}
}

// Adopted is the entry that was taken over with the point of a claim, and the ConfigMap that it stood in; nil for none.
// left says that the stream which took it over has left: the claim is the ConfigMap's again.
func Adopted(c *v1beta1.EdgeClaim) (entry *v1beta1.AdoptedEntry, in Holder, left bool) {
	if entry = c.Spec.Adopted; entry == nil {
		return nil, Holder{}, false
	}
	in = holderIn(entry.Holder)
	return entry, in, HolderOf(c) == in
}

// StreamHolder is a StreamIngress as holder.
func StreamHolder(namespace, name string) Holder {
	return Holder{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: namespace, Name: name}
}

// ConfigMapHolder is a ConfigMap as holder of the entries that were not made by Portcullis.
func ConfigMapHolder(namespace, name string) Holder {
	return Holder{Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// ServiceHolder is a Service as holder of the paths and addresses that it asks for, and of the ports on it that were not
// opened by Portcullis.
func ServiceHolder(namespace, name string) Holder {
	return Holder{Kind: "Service", Namespace: namespace, Name: name}
}

// IngressHolder is an Ingress as holder of the paths that it serves and that no annotation asked for.
func IngressHolder(namespace, name string) Holder {
	return Holder{Group: "networking.k8s.io", Kind: "Ingress", Namespace: namespace, Name: name}
}

// GatewayHolder is a Gateway as holder of the ports of its own listeners.
func GatewayHolder(namespace, name string) Holder {
	return Holder{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: namespace, Name: name}
}

// ListenerSetHolder is a ListenerSet as holder of the ports of listeners that were not made by Portcullis.
func ListenerSetHolder(namespace, name string) Holder {
	return Holder{Group: "gateway.networking.k8s.io", Kind: "ListenerSet", Namespace: namespace, Name: name}
}

// RouteHolder is a TCPRoute, a UDPRoute or a TLSRoute as holder of what it has of listeners.
func RouteHolder(kind, namespace, name string) Holder {
	return Holder{Group: "gateway.networking.k8s.io", Kind: kind, Namespace: namespace, Name: name}
}

// IsRoute says whether the holder is a route that has something of a listener.
func (h Holder) IsRoute() bool {
	return h.Group == "gateway.networking.k8s.io" && (h.Kind == "TCPRoute" || h.Kind == "UDPRoute" || h.Kind == "TLSRoute")
}

// NamespaceHolder is a namespace as holder of the host names that its objects use.
func NamespaceHolder(name string) Holder { return Holder{Kind: "Namespace", Name: name} }

// IsNamespace says whether the holder is a namespace.
func (h Holder) IsNamespace() bool { return h.Group == "" && h.Kind == "Namespace" }

// Tenant is the namespace that a holder is in, or is; empty for what is the cluster's.
func (h Holder) Tenant() string {
	if h.IsNamespace() {
		return h.Name
	}
	return h.Namespace
}

// ClassHolder is a StreamIngressClass as holder of the ports of the nodes that its proxy takes there.
func ClassHolder(name string) Holder {
	return Holder{Group: v1beta1.GroupName, Kind: "StreamIngressClass", Name: name}
}

// IsClass says whether the holder is a StreamIngressClass.
func (h Holder) IsClass() bool { return h.Group == v1beta1.GroupName && h.Kind == "StreamIngressClass" }

// IsStream says whether the holder is a StreamIngress.
func (h Holder) IsStream() bool { return h.Group == v1beta1.GroupName && h.Kind == "StreamIngress" }

// IsService says whether the holder is a Service.
func (h Holder) IsService() bool { return h.Group == "" && h.Kind == "Service" }

// IsIngress says whether the holder is an Ingress.
func (h Holder) IsIngress() bool { return h.Group == "networking.k8s.io" && h.Kind == "Ingress" }

// Key is the namespace and name of the holder.
func (h Holder) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
}

// String is the holder in one line, for example "StreamIngress shop/postgres". It is what spec.heldBy holds.
func (h Holder) String() string {
	if h.Namespace == "" {
		return h.Kind + " " + h.Name
	}
	return h.Kind + " " + h.Namespace + "/" + h.Name
}

// Claimant is an object in one of its lives and versions: the UID tells it from an earlier object of its name, the
// generation counts the changes to its spec. Where points follow from metadata, as they do for Services, the generation
// does not count what matters: there it is the Version.
type Claimant struct {
	Holder
	UID        types.UID
	Generation int64
	// For is the object whose UID and generation these are where the holder is its namespace, which claims host names.
	For Holder
	// ClassName is the class for whose proxy a Service claims the point, empty where it is for itself, or any.
	ClassName string
	// ExternalIP says that a Service claims the port of an address because it names that in spec.externalIPs. A claim that it has been
	// given, or is given later, does not say so.
	ExternalIP bool
	// Adopts is the foreign entry that a stream takes over with the point, from whatever holds the claim on it that is no
	// stream; nil for none.
	Adopts *v1beta1.AdoptedEntry
}

// takes says whether a claim of another holder gives way to the claimant. None does that has been promised to an heir.
func (c Claimant) takes(found *v1beta1.EdgeClaim, mayTake MayTake) bool {
	return found.Spec.Heir == nil && (mayTake != nil && mayTake(found) || c.Adopts != nil && !HolderOf(found).IsStream())
}

// gaveAway says whether a claim of the claimant is promised to an heir: then the claimant is promised it no more.
func (c Claimant) gaveAway(found *v1beta1.EdgeClaim) bool {
	return HolderOf(found) == c.Holder && found.Spec.Heir != nil
}

// isNoted says whether a claim of the claimant says for which class it is, and whether it is for an external IP alone.
func (c Claimant) isNoted(in *v1beta1.EdgeClaim) bool {
	return (c.ClassName == "" || c.ClassName == in.Spec.ClassName) && (c.ExternalIP || !in.Spec.ExternalIP)
}

// having is a claim that somebody has, the claimant or another, when the claimant has it.
func (c Claimant) having(found *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	next := found.DeepCopy()
	if HolderOf(found) != c.Holder {
		next.Spec.Adopted, next.Spec.ClassName, next.Spec.ExternalIP = c.Adopts, "", c.ExternalIP
	}
	next.Spec.ExternalIP = next.Spec.ExternalIP && c.ExternalIP
	next.Spec.Holder, next.Spec.HeldBy = c.spec(), c.String()
	next.Spec.ClassName = cmp.Or(c.ClassName, next.Spec.ClassName)
	return next
}

// Spec is the holder as a claim names it.
func (h Holder) Spec(uid types.UID) v1beta1.ClaimHolder {
	return v1beta1.ClaimHolder{Group: h.Group, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, UID: uid}
}

// Version numbers the stored versions of an object by its resourceVersion, which grows with each of them. An attempt to
// store a change of the version n can only succeed as long as n is what is stored, and is admitted anew otherwise. So
// a change of n is promised as n + 1, and has ended one way or the other when n + 1 or later is stored. What is no number
// counts as never stored.
func Version(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// AfterVersion is the version that a change of a stored version is promised as. Of one that is no number, it is never
// stored.
func AfterVersion(resourceVersion string) int64 {
	n := Version(resourceVersion)
	if n < 0 {
		return math.MaxInt64
	}
	return n + 1
}

func (c Claimant) spec() v1beta1.ClaimHolder {
	h := c.Spec(c.UID)
	h.Generation = c.Generation
	return h
}
