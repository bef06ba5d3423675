package v1beta1

const (
	// LoadBalancerClass is the spec.loadBalancerClass of the Services that Portcullis serves.
	LoadBalancerClass = GroupName + "/portcullis"

	// AnnotationAddressPool on a Service of type LoadBalancer names the AddressPool that is to serve it.
	AnnotationAddressPool = GroupName + "/address-pool"
	// AnnotationAddresses on a Service of type LoadBalancer asks for addresses: one, or one of each IP family, separated
	// by a comma. The deprecated spec.loadBalancerIP has the same meaning for one address.
	AnnotationAddresses = GroupName + "/addresses"
	// AnnotationSharing on a Service of type LoadBalancer says whether it may share its address: None or Ports. It is
	// then served only from pools whose sharing is the same. Left out: from either.
	AnnotationSharing = GroupName + "/sharing"
)

// Reasons for which a Service gets no address, or not the one it asks for. They are those of its events, of refusals,
// and, prefixed with the group's name, of the errors of its ports in status.loadBalancer.
const (
	// ReasonInvalidRequest: an annotation of the Service can't be read.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonNoAddressPool: there is no AddressPool that may serve the Service.
	ReasonNoAddressPool = "NoAddressPool"
	// ReasonAddressPoolNotFound: the pool that is asked for does not exist.
	ReasonAddressPoolNotFound = "AddressPoolNotFound"
	// ReasonAddressPoolNotAllowed: the pool that is asked for, or has the address, does not serve this Service.
	ReasonAddressPoolNotAllowed = "AddressPoolNotAllowed"
	// ReasonAddressNotInPool: the address that is asked for is in no pool, or not in the one that is asked for; or no pool gives one at which
	// the Service is served.
	ReasonAddressNotInPool = "AddressNotInPool"
	// ReasonAddressConflict: the address is held by another object.
	ReasonAddressConflict = "AddressConflict"
	// ReasonAddressFamilyMismatch: the Service has not the IP family of the address.
	ReasonAddressFamilyMismatch = "AddressFamilyMismatch"
	// ReasonSharingMismatch: the pool does not share addresses as it is asked to.
	ReasonSharingMismatch = "SharingMismatch"
	// ReasonNoFreeAddress: no pool that may serve the Service has a free address.
	ReasonNoFreeAddress = "NoFreeAddress"
	// ReasonTooManyPorts: the Service has more ports than one Service gets where addresses are shared.
	ReasonTooManyPorts = "TooManyPorts"
	// ReasonNoReadyNode: no node can take the Service's traffic.
	ReasonNoReadyNode = "NoReadyNode"
	// ReasonForeignLoadBalancer: the status of a Service without a class was written by another controller.
	ReasonForeignLoadBalancer = "ForeignLoadBalancer"
)

// Reasons of the events of a Service that has addresses.
const (
	// ReasonAddressAssigned: what was refused before, or was lost, is served now.
	ReasonAddressAssigned = "AddressAssigned"
	// ReasonAddressLost: an address was taken away, because no pool gives it to the Service any longer, or another object has it.
	ReasonAddressLost = "AddressLost"
)

// Reasons of AddressPools.
const (
	// ReasonPoolOverlap: addresses of the pool are in an older pool, too, which has them.
	ReasonPoolOverlap = "PoolOverlap"
	// ReasonPoolInUse: Services have addresses that the change would take from the pool.
	ReasonPoolInUse = "PoolInUse"
	// ReasonPoolNearlyEmpty: less than a tenth of the pool's addresses are free.
	ReasonPoolNearlyEmpty = "PoolNearlyEmpty"
	// ReasonPoolEmpty: no address of the pool is free.
	ReasonPoolEmpty = "PoolEmpty"
)
