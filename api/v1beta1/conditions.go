package v1beta1

// Condition types. They follow the Gateway API: Accepted says whether the request is granted, ResolvedRefs whether
// what it points to exists and may be used, Programmed whether the proxy has been told.
const (
	ConditionAccepted     = "Accepted"
	ConditionResolvedRefs = "ResolvedRefs"
	ConditionProgrammed   = "Programmed"
	// ConditionHandedOver is there for as long as a stream that has handed its port over says to whom.
	ConditionHandedOver = "HandedOver"
)

// Reasons of the condition Accepted.
const (
	// ReasonAccepted: the port is granted and claimed in the ledger.
	ReasonAccepted = "Accepted"
	// ReasonPortConflict: the port is held by another object.
	ReasonPortConflict = "PortConflict"
	// ReasonPortReserved: the class keeps this port for itself.
	ReasonPortReserved = "PortReserved"
	// ReasonPortNotAllowed: no allow rule of the class gives the port to this namespace.
	ReasonPortNotAllowed = "PortNotAllowed"
	// ReasonNoFreePort: the class's autoAssign range has no free port left for this namespace.
	ReasonNoFreePort = "NoFreePort"
	// ReasonNamespaceLimitReached: the namespace has as many ports, or addresses, as an allow rule of the class, or an
	// AddressPool, gives to one namespace.
	ReasonNamespaceLimitReached = "NamespaceLimitReached"
	// ReasonAutoAssignDisabled: listen was left out, and the class has no autoAssign range.
	ReasonAutoAssignDisabled = "AutoAssignDisabled"
	// ReasonProtocolNotSupported: the class has no ConfigMap for this protocol.
	ReasonProtocolNotSupported = "ProtocolNotSupported"
	// ReasonProxyProtocolNotSupported: the stream asks for the PROXY protocol, and the class has no proxy that speaks it.
	ReasonProxyProtocolNotSupported = "ProxyProtocolNotSupported"
	// ReasonClusterIPsExhausted: each stream of the class takes a cluster IP, and the cluster has none left.
	ReasonClusterIPsExhausted = "ClusterIPsExhausted"
	// ReasonNodePortsExhausted: each stream of the class takes a node port for its health check, and the cluster has none left.
	ReasonNodePortsExhausted = "NodePortsExhausted"
	// ReasonClassNotFound: the named class does not exist, or none is named and there is no default class.
	ReasonClassNotFound = "ClassNotFound"
	// ReasonClassAmbiguous: no class is named, and several are marked as default.
	ReasonClassAmbiguous = "ClassAmbiguous"
	// ReasonInvalid: the object says something that can't be read.
	ReasonInvalid = "Invalid"
	// ReasonClassInUse: the change would take the door away from streams of the class.
	ReasonClassInUse = "ClassInUse"
	// ReasonBeingDeleted: the object is being deleted, and asks for more than it has.
	ReasonBeingDeleted = "BeingDeleted"
	// ReasonTargetConflict: another class already writes to the ConfigMap or the Service of this class.
	ReasonTargetConflict = "TargetConflict"
	// ReasonNoAddress: the class has no address of its addressPool, or its Gateway has none.
	ReasonNoAddress = "NoAddress"
	// ReasonGatewayNotFound: the Gateway of the class does not exist.
	ReasonGatewayNotFound = "GatewayNotFound"
	// ReasonGatewayNotServed: no controller has accepted the Gateway of the class, or its GatewayClass.
	ReasonGatewayNotServed = "GatewayNotServed"
	// ReasonGatewayNotSupported: the controller of the Gateway, or the cluster, knows no ListenerSets, TCPRoutes or UDPRoutes, or the
	// Gateway lets no ListenerSet of its namespace attach.
	ReasonGatewayNotSupported = "GatewayNotSupported"
)

// Reasons of the condition ResolvedRefs.
const (
	// ReasonResolvedRefs: the upstream exists and may be used.
	ReasonResolvedRefs = "ResolvedRefs"
	// ReasonRefNotPermitted: the upstream is in another namespace, which has not consented.
	ReasonRefNotPermitted = "RefNotPermitted"
	// ReasonBackendNotFound: the upstream Service does not exist.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonBackendPortNotFound: the upstream Service has no such port for this protocol.
	ReasonBackendPortNotFound = "BackendPortNotFound"
	// ReasonEndpointsLeftOut: of the endpoints of the upstream Service, some are not Pods of its namespace, and the class does not
	// let streams lead there.
	ReasonEndpointsLeftOut = "EndpointsLeftOut"
	// ReasonBackendRefused: the API server refused the Service or EndpointSlice of an outside upstream.
	ReasonBackendRefused = "BackendRefused"
	// ReasonRouteNotResolved: the controller of the Gateway does not resolve what the route of the stream leads to.
	ReasonRouteNotResolved = "RouteNotResolved"
	// ReasonBackendNameTaken: an object that this StreamIngress does not own has the name that its outside upstream needs.
	ReasonBackendNameTaken = "BackendNameTaken"
)

// Reasons of the condition Programmed.
const (
	// ReasonProgrammed: the ConfigMap has the entry and the Service has the port; or the Service of the stream, its
	// EndpointSlices and its status are written.
	ReasonProgrammed = "Programmed"
	// ReasonPending: the change is about to be written.
	ReasonPending = "Pending"
	// ReasonNotAccepted: the request was not accepted, so nothing is programmed.
	ReasonNotAccepted = "NotAccepted"
	// ReasonUnresolvedRefs: the upstream may not be used or can't be resolved, so nothing is programmed.
	ReasonUnresolvedRefs = "UnresolvedRefs"
	// ReasonServiceNotFound: the entry is written, but the Service of the class does not exist.
	ReasonServiceNotFound = "ServiceNotFound"
	// ReasonPortRefused: the API server refused the port on the Service of the class, or somebody else has it on the addresses or
	// the nodes that the proxy shares.
	ReasonPortRefused = "PortRefused"
	// ReasonConfigMapFull: the ConfigMap of the class has no room for another entry.
	ReasonConfigMapFull = "ConfigMapFull"
	// ReasonConfigMapRefused: the API server refused the ConfigMap of the class.
	ReasonConfigMapRefused = "ConfigMapRefused"
	// ReasonServiceRefused: the API server refused the Service or an EndpointSlice of a stream.
	ReasonServiceRefused = "ServiceRefused"
	// ReasonListenerConflicted: the controller of the Gateway says that the listener of the port is in conflict with another one.
	ReasonListenerConflicted = "ListenerConflicted"
	// ReasonListenerNotProgrammed: the controller of the Gateway has not accepted, or not programmed, the listener of the port.
	ReasonListenerNotProgrammed = "ListenerNotProgrammed"
	// ReasonRouteNotAccepted: the controller of the Gateway has not accepted the route of the stream.
	ReasonRouteNotAccepted = "RouteNotAccepted"
	// ReasonRouteRefused: the API server refused the ListenerSet of the port, or the route of the stream.
	ReasonRouteRefused = "RouteRefused"
	// ReasonRouteNameTaken: a route that Portcullis did not make has the name that a stream needs.
	ReasonRouteNameTaken = "RouteNameTaken"
	// ReasonServiceNameTaken: a Service that Portcullis did not make has the name that a stream needs.
	ReasonServiceNameTaken = "ServiceNameTaken"
)

// Reasons of the events of a StreamIngress, beside those of its conditions.
const (
	// ReasonMoved: the stream has moved to another class, and the door that it had before is closed.
	ReasonMoved = "Moved"
)

// Reasons of what is handed over.
const (
	// ReasonHandedOver: what the object had is another's now, as it asked for by its annotation. It asks for that again once the
	// annotation is gone.
	ReasonHandedOver = "HandedOver"
	// ReasonTookOver: the object has what another one has handed over to it.
	ReasonTookOver = "TookOver"
)

const (
	// AnnotationHandOverTo on the holder of a point names the object of its kind, as namespace/name, that may have the point in its place.
	AnnotationHandOverTo = GroupName + "/hand-over-to"

	// AnnotationDefaultClass marks, with the value "true", the StreamIngressClass of streams that name none.
	AnnotationDefaultClass = GroupName + "/is-default-class"

	// LabelClass marks the ConfigMaps and the Service that a StreamIngressClass writes to. Its value is the class's name.
	LabelClass = GroupName + "/class"

	// LabelLedger marks the Pods of Portcullis with the version of the ledger that they keep. Since version 2, which is the first that has
	// one, a host and path is claimed for its IngressClass; since version 3 a claim of a stream can have an heir, since version 4 one on an
	// address or a path of an Ingress, and since version 5 one of a namespace. Who looks for earlier ones names those that are not: see
	// internal/kube/replicas.go.
	LabelLedger = GroupName + "/ledger"
)
