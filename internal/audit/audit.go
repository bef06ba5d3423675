// Package audit is the second reader of the ledger. It compares what is claimed with what stands in the cluster, knows
// nothing of how either came about, and shares no cache, no index and no rule with those who write: what goes wrong
// there shows here.
//
//	a claim       must have a holder that is stored and asks for its point, once nobody can be about to store one
//	a point       that stands (in a ConfigMap or on the Service of a class, in an Ingress, in the status of a load
//	              balancer) must have a claim
//
// The two sides are not read at one moment, and a busy ledger is always about to change: only what stands for longer
// than a while is a disagreement. That is what Watch is for.
//
// It reads and writes nothing: values go in, values come out.
package audit

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Kind is what is wrong.
type Kind string

// The kinds of disagreements.
const (
	// ClaimWithoutHolder: a point is kept from others for an object that is not there, or does not ask for it.
	ClaimWithoutHolder Kind = "claim_without_holder"
	// PointWithoutClaim: a point is open, and the ledger would give it to anybody.
	PointWithoutClaim Kind = "point_without_claim"
)

// Kinds are all of them.
var Kinds = []Kind{ClaimWithoutHolder, PointWithoutClaim}

// Object is an object of the cluster.
type Object struct {
	claim.Holder
	UID types.UID
}

// Disagreement is one point about which ledger and cluster disagree. It is comparable: two looks that show the same
// values have seen the same thing.
type Disagreement struct {
	Kind  Kind
	Point claim.Coordinate
	// Holder is who has the claim; zero where nobody has one.
	Holder claim.Holder
	// Object is where to look: the claim, or what the point belongs to.
	Object Object
	// Where is the object that the point stands in; zero where it is a claim that is wrong.
	Where claim.Holder
}

// String is the disagreement in a sentence.
func (d Disagreement) String() string {
	if d.Kind == ClaimWithoutHolder {
		return fmt.Sprintf("%s is claimed for %s, which is not there or does not ask for it", d.Point, d.Holder)
	}
	if d.Holder != (claim.Holder{}) {
		return fmt.Sprintf("%s stands in %s and is claimed for %s", d.Point, d.Where, d.Holder)
	}
	return fmt.Sprintf("%s stands in %s and has no claim", d.Point, d.Where)
}

// Disagreements compares the two sides. They are ordered by point.
func (f *Facts) Disagreements() []Disagreement {
	var found []Disagreement
	for at, c := range f.claims {
		if b, known := f.balancers[c.holder]; known && !b.ours && (at.IsAddress() || at.IsNode()) {
			b.ours = true
			f.balancers[c.holder] = b
		}
		if !c.promised && !f.asks(c, at) && !f.listens(c, at) {
			found = append(found, Disagreement{Kind: ClaimWithoutHolder, Point: at, Holder: c.holder, Object: c.object})
		}
	}
	for at, place := range f.standing {
		found = append(found, Disagreement{
			Kind: PointWithoutClaim, Point: at, Holder: f.holder(at), Object: place.object, Where: place.where,
		})
	}
	for _, b := range f.balancers {
		found = append(found, b.unclaimed(f.holder)...)
	}
	slices.SortFunc(found, byPoint)
	return found
}

// listens says whether a claim is on a point of the nodes, or of an address, for a port that somebody has of a class: of one whose
// proxy is on the nodes, if a class has the point, or of one that is gone, and may come back.
func (f *Facts) listens(c *entry, at claim.Coordinate) bool {
	has := func(class string) bool { return f.claims[claim.Stream(class, at.Protocol(), at.Port())] != nil }
	switch {
	case at.IsStream():
		return c.holder.IsClass() && has(c.holder.Name)
	case c.holder.IsClass() && c.asked:
		return true
	case c.holder.IsClass() && at.IsAddress():
		return f.keeps(c.holder.Name, at)
	case !c.holder.IsClass():
		return c.class != "" && (!f.classes[c.class] || f.gateways[c.class]) && has(c.class)
	case slices.ContainsFunc(f.onNodes, has):
		return true
	}
	for class := range f.claimed {
		if !f.classes[class] && has(class) {
			return true
		}
	}
	return false
}

// holder is who has the claim on a point, zero for nobody.
func (f *Facts) holder(at claim.Coordinate) claim.Holder {
	if c := f.claims[at]; c != nil {
		return c.holder
	}
	return claim.Holder{}
}

func byPoint(a, b Disagreement) int {
	return cmp.Or(claim.Compare(a.Point, b.Point), cmp.Compare(a.Kind, b.Kind))
}
