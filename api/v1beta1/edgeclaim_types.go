package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EdgeClaim is the exclusive right to one point of the edge. Its name is the coordinate of that point, so that the
// API server itself decides who was first. Portcullis writes claims; people read them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ec,categories=portcullis
// +kubebuilder:selectablefield:JSONPath=`.spec.scope`
// +kubebuilder:selectablefield:JSONPath=`.spec.point`
// +kubebuilder:selectablefield:JSONPath=`.spec.heldBy`
// +kubebuilder:selectablefield:JSONPath=`.spec.holder.namespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Point",type=string,JSONPath=`.spec.point`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.heldBy`
// +kubebuilder:printcolumn:name="Heir",type=string,JSONPath=`.spec.heir.name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EdgeClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which point is held, and by whom.
	// +required
	Spec EdgeClaimSpec `json:"spec"`
}

// EdgeClaimSpec says which point is held, and by whom.
//
// +kubebuilder:validation:XValidation:rule="self.scope == oldSelf.scope && self.point == oldSelf.point",message="scope and point can't be changed: they are the claim's name"
// +kubebuilder:validation:XValidation:rule="self.heldBy == (has(self.holder.__namespace__) ? self.holder.kind + ' ' + self.holder.__namespace__ + '/' + self.holder.name : self.holder.kind + ' ' + self.holder.name)",message="must be the holder's kind, namespace and name",fieldPath=".heldBy"
type EdgeClaimSpec struct {
	// scope is the space in which points are unique, for example stream/public: the streams of class public; http/nginx: the hosts and paths
	// of IngressClass nginx; gateway/infra/edge: what Gateway edge of namespace infra listens on; http/gateway/infra/edge: the paths of hosts
	// that routes serve there; route/gateway/infra/edge/sql: the routes on the listener sql of that Gateway; or hostname: host names that are
	// a namespace's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=640
	Scope string `json:"scope"`

	// point is what is held within the scope, for example TCP/8080, shop.example.com/api, or, of an Ingress with very many
	// paths, the host shop.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Point string `json:"point"`

	// holder is the object that holds the point; of a host name, and of a path that routes serve, it is the namespace.
	// +required
	Holder ClaimHolder `json:"holder"`

	// heldBy is the holder in one line, for people and field selectors: "StreamIngress shop/postgres".
	// +required
	// +kubebuilder:validation:MaxLength=512
	HeldBy string `json:"heldBy"`

	// renewed is when an admission last promised the point to the holder, by the clock of the replica that did so. Until
	// the holder has been seen stored, or a grace period has passed since, the claim is not released. Absent when the
	// claim was made for an object that was already stored.
	// +optional
	Renewed *metav1.MicroTime `json:"renewed,omitempty"`

	// heir is who is to hold the point next: the holder hands it over, and an admission has promised it to the heir. The claim is the heir's
	// once that is seen stored; until then it is the holder's, as if nothing had happened. Absent where nothing is handed over.
	// +optional
	Heir *ClaimHeir `json:"heir,omitempty"`

	// className is the StreamIngressClass whose proxy has the point: the class's Service is the holder, and shares its addresses, or
	// the nodes, with others. Should the class go, and come back, the point is still there for whoever has the port on the proxy.
	// Absent where the holder has the point for itself.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`

	// externalIP says that the holder, a Service, has the port of the address by naming it in spec.externalIPs, and was not given it as
	// a load balancer. Absent where it was given it, whether it names it or not.
	// +optional
	ExternalIP bool `json:"externalIP,omitempty"`

	// routeNamespaces are where Portcullis has written, or is about to write, a route to the stream that holds the point, or to one
	// that held it: what is written there is found, and taken out again, by this alone. Absent where the class has no Gateway.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	RouteNamespaces []string `json:"routeNamespaces,omitempty"`

	// adopted is the foreign entry that stood at the point when a stream took it over. The stream's class says what becomes
	// of it when the stream leaves. Absent when nothing stood there, and when it has been given back.
	// +optional
	Adopted *AdoptedEntry `json:"adopted,omitempty"`
}

// AdoptedEntry is an entry of a ConfigMap that Portcullis has not made, and that a stream has taken over.
type AdoptedEntry struct {
	// holder is the ConfigMap. It holds the claim again when the stream has left.
	// +required
	Holder ClaimHolder `json:"holder"`
	// entry is the value that stood in the ConfigMap.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Entry string `json:"entry"`
	// granted says that the stream was stored and was about to be programmed. A stream that was promised the point and never
	// stored has taken over nothing, whatever the class says: when the claim is the ConfigMap's again, it forgets the entry.
	// +optional
	Granted bool `json:"granted,omitempty"`
	// replaced says that the stream leads elsewhere by now, or did, so that only this claim remembers the entry. While it is
	// false, somebody who removes the entry at its source leaves the port to the stream for good.
	// +optional
	Replaced bool `json:"replaced,omitempty"`
}

// ClaimHeir is the object to which the holder of a claim hands it over.
type ClaimHeir struct {
	ClaimHolder `json:",inline"`
	// renewed is when an admission last promised the point to the heir, by the clock of the replica that did so.
	// +required
	Renewed metav1.MicroTime `json:"renewed"`
}

// ClaimHolder is the object that holds a claim.
type ClaimHolder struct {
	// group is the API group of the holder, empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind of the holder.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace of the holder, empty for cluster-scoped kinds.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the holder.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the holder for which the claim was last made or renewed; of a namespace, which holds host names, that of its object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// generation is the metadata.generation of the holder for which the claim was last made or renewed. A holder that is
	// stored with this generation or a later one has no admission of this claim in flight. Services have no generation:
	// there it is the resourceVersion, and for a change one more than that of the version that was changed.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// EdgeClaimList is a list of EdgeClaims.
//
// +kubebuilder:object:root=true
type EdgeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EdgeClaim `json:"items"`
}
