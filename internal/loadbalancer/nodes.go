package loadbalancer

import (
	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// NodeFacts are what the rules see of who has ports of the nodes. What is not there is nil.
type NodeFacts interface {
	// Claim is the claim of a name.
	Claim(name string) *v1beta1.EdgeClaim
	// ClassesOnNodes are the classes without a Service, whose proxies are on the network of the nodes.
	ClassesOnNodes() []v1beta1.StreamIngressClass
}

// HeldOnNodes finds the claim that keeps a port of the nodes from Services, nil for none: the one on the port itself, or the one on
// the port of a proxy that listens on the nodes. Its class claims it there, too, but only when it has learned that the nodes are
// shared, or that its proxy is on them by now; a Service that has waited for the same would be faster.
func HeldOnNodes(facts NodeFacts, at claim.Coordinate) *v1beta1.EdgeClaim {
	if held := facts.Claim(at.Name()); held != nil {
		return held
	}
	classes := facts.ClassesOnNodes()
	for i := range classes {
		port := claim.Stream(classes[i].Name, at.Protocol(), at.Port())
		if port.IsZero() { // SCTP, which no proxy serves
			return nil
		}
		if held := facts.Claim(port.Name()); held != nil {
			return held
		}
	}
	return nil
}
