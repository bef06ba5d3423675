package allocator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const (
	poolPath      = "metadata.annotations[nginx-stream.jeffthecoder.xyz/address-pool]"
	addressesPath = "metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]"
	sharingPath   = "metadata.annotations[nginx-stream.jeffthecoder.xyz/sharing]"
)

func TestPoolThatIsAskedFor(t *testing.T) {
	refused := func(reason, text string) []verdict { return []verdict{{reason, text}} }
	notAllowed := func(name, text string) []verdict {
		return refused(v1beta1.ReasonAddressPoolNotAllowed, poolPath+`: Invalid value: "`+name+`": AddressPool `+name+" "+text)
	}
	w := clusterWith(
		pool("a", "192.0.2.0/28"), pool("b", "198.51.100.1,198.51.100.2,198.51.100.3,198.51.100.4,198.51.100.5,198.51.100.6"),
		pool("nodes", ""), clusterIPPool("own"), pool("other-team", "203.0.113.1", forTeam("b")), pool("other-tier", "203.0.113.2", forTier("inner")),
		pool("strict", "203.0.113.3", forTier("inner"), forTeam("b")), pool("twice", "192.0.2.9"))
	checkAll(t, map[string]allocated{
		"there is none of that name": {in: w, svc: asking(forPool("c")), why: refused(v1beta1.ReasonAddressPoolNotFound,
			poolPath+`: Not found: "c": there are the AddressPools a, b, nodes, other-team, other-tier, ...`)},
		"there is none at all": {in: clusterWith(), svc: asking(forPool("c")),
			why: refused(v1beta1.ReasonAddressPoolNotFound, poolPath+`: Not found: "c": there is no AddressPool`)},
		"it is not accepted": {in: w, svc: asking(forPool("twice")), why: notAllowed("twice", "is not accepted: spec.addresses[0]: Duplicate value: "+
			`"192.0.2.9": AddressPool a has these addresses already: an address can be in one pool only`)},
		"it serves other namespaces": {in: w, svc: asking(forPool("other-team")),
			why: notAllowed("other-team", `does not serve this Service: its namespaceSelector does not select namespace "shop"`)},
		"it serves other Services": {in: w, svc: asking(forPool("other-tier")),
			why: notAllowed("other-tier", "does not serve this Service: its serviceSelector does not select it")},
		"it serves Services with few labels": {in: w, svc: asking(forPool("other-tier"), withLabels(100)), why: notAllowed("other-tier",
			"does not serve this Service: its serviceSelector selects no Service whose labels take more than 4096 bytes")},
		"it serves others by both": {in: w, svc: asking(forPool("strict")),
			why: notAllowed("strict", "does not serve this Service: its serviceSelector and namespaceSelector do not select it")},
		"it does not share": {in: w, svc: asking(forPool("a"), forSharing("Ports")), why: refused(v1beta1.ReasonSharingMismatch,
			sharingPath+`: Invalid value: "Ports": AddressPool a has the sharing None`)},
		"it has not the address": {in: w, svc: asking(forPool("a"), forAddresses("198.51.100.1")), why: refused(v1beta1.ReasonAddressNotInPool,
			addressesPath+`: Invalid value: "198.51.100.1": is not an address of AddressPool a, which has 192.0.2.0/28`)},
		"it has not the address, and many": {in: w, svc: asking(forPool("b"), forAddresses("192.0.2.1")), why: refused(v1beta1.ReasonAddressNotInPool,
			addressesPath+`: Invalid value: "192.0.2.1": is not an address of AddressPool b, which has `+
				"198.51.100.1, 198.51.100.2, 198.51.100.3, 198.51.100.4, 198.51.100.5, ...")},
		"it is of the nodes": {in: w, svc: asking(forPool("nodes"), forAddresses("192.0.2.1")), why: refused(v1beta1.ReasonAddressNotInPool,
			addressesPath+`: Invalid value: "192.0.2.1": is not an address of AddressPool nodes, which has the addresses of the nodes, all of them: leave the addresses out`)},
		"it is of cluster IPs": {in: w, svc: asking(forPool("own"), forAddresses("192.0.2.1"), withClusterIPs("10.96.0.9")),
			why: refused(v1beta1.ReasonAddressNotInPool, addressesPath+`: Invalid value: "192.0.2.1": is not an address of AddressPool own, `+
				"which has the cluster IPs of each Service: leave the addresses out")},
	})
}

// withLabels gives a Service so many labels of 50 bytes.
func withLabels(n int) serviceChange {
	return func(svc *corev1.Service) {
		svc.Labels = map[string]string{}
		for i := range n {
			svc.Labels[fmt.Sprintf("%050d", i)] = ""
		}
	}
}

func TestAddressThatIsAskedFor(t *testing.T) {
	w := clusterWith(pool("a", "192.0.2.0/28", avoidBuggy), pool("s", "198.51.100.1", sharesPorts), pool("other-team", "203.0.113.1", forTeam("b")))
	refused := func(reason, ip, text string) []verdict {
		return []verdict{{reason, addressesPath + `: Invalid value: "` + ip + `": ` + text}}
	}
	nowhere := func(ip string) []verdict {
		return refused(v1beta1.ReasonAddressNotInPool, ip, "is in no AddressPool: there are the AddressPools a, other-team, s"+
			"; a has 192.0.2.0/28; other-team has 203.0.113.1; s has 198.51.100.1")
	}
	checkAll(t, map[string]allocated{
		"it is in no pool": {in: w, svc: asking(forAddresses("192.0.2.77")), why: nowhere("192.0.2.77")},
		"it is buggy":      {in: w, svc: asking(forAddresses("192.0.2.0")), why: nowhere("192.0.2.0")},
		"there is no pool": {in: clusterWith(), svc: asking(forAddresses("192.0.2.1")),
			why: refused(v1beta1.ReasonAddressNotInPool, "192.0.2.1", "is in no AddressPool: there is no AddressPool")},
		"it is another Service's cluster IP": {in: clusterWith(clusterIPPool("own")), svc: asking(forAddresses("10.96.0.10"), withClusterIPs("10.96.0.9")),
			why: refused(v1beta1.ReasonAddressNotInPool, "10.96.0.10", "is in no AddressPool: there are the AddressPools own")},
		"one of two is its cluster IP": {in: clusterWith(clusterIPPool("own"), pool("a", "2001:db8::1")),
			svc: asking(forAddresses("10.96.0.9,2001:db8::1"), eitherFamily, withClusterIPs("10.96.0.9", "fd00::9")),
			why: refused(v1beta1.ReasonAddressNotInPool, "10.96.0.9", "is in no AddressPool: there are the AddressPools a, own; a has 2001:db8::1")},
		"it is for other namespaces": {in: w, svc: asking(forAddresses("203.0.113.1")), why: refused(v1beta1.ReasonAddressPoolNotAllowed, "203.0.113.1",
			`AddressPool other-team, which has it, does not serve this Service: its namespaceSelector does not select namespace "shop"`)},
		"it is shared": {in: w, svc: asking(forAddresses("198.51.100.1"), forSharing("None")), why: refused(v1beta1.ReasonSharingMismatch, "198.51.100.1",
			"AddressPool s, which has it, has the sharing Ports")},
		"it is of another family": {in: w, svc: asking(forAddresses("192.0.2.1"), ipv6Only), why: refused(v1beta1.ReasonAddressFamilyMismatch, "192.0.2.1",
			"the Service has no IPv4: its spec.ipFamilies are IPv6")},
		"one of two is in no pool": {in: w, svc: asking(forAddresses("192.0.2.1,2001:db8::1"), eitherFamily), why: nowhere("2001:db8::1")},
	})
}

func TestNoPool(t *testing.T) {
	none := func(text string) []verdict {
		return []verdict{{v1beta1.ReasonNoAddressPool, `spec.type: Invalid value: "LoadBalancer": ` + text}}
	}
	onlyOthers := `does not serve this Service: its namespaceSelector does not select namespace "shop"`
	checkAll(t, map[string]allocated{
		"there is none": {in: clusterWith(), svc: asking(),
			why: none("there is no AddressPool that is accepted: create one with the addresses that Services may have")},
		"none serves it": {in: clusterWith(pool("a", "192.0.2.1", forTeam("b")), pool("b", "2001:db8::1"), pool("c", "198.51.100.1", onRequest)), svc: asking(),
			why: none("no AddressPool serves this Service: a " + onlyOthers + "; b has no IPv4 addresses; " +
				"c has autoAssign false: name it in the annotation nginx-stream.jeffthecoder.xyz/address-pool")},
		"none of many": {in: clusterWith(pool("a", "2001:db8::1"), pool("b", "2001:db8::2"), pool("c", "2001:db8::3"), pool("d", "2001:db8::4")), svc: asking(),
			why: none("no AddressPool serves this Service: a has no IPv4 addresses; b has no IPv4 addresses; c has no IPv4 addresses; and 1 more")},
		"none shares": {in: clusterWith(pool("a", "192.0.2.1")), svc: asking(forSharing("Ports")),
			why: none("no AddressPool serves this Service: a has the sharing None")},
	})
}
