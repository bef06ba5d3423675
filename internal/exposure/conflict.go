package exposure

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Conflicts finds those of the points that somebody else holds, as far as is known without asking the API server:
// points that another object has a claim on and does not hand over, and those that Ingresses serve without one. Of several that serve a
// point the claim says who was there first. graceLeft says how long a claim is kept if its holder is gone.
func Conflicts(
	facts Facts, svc *corev1.Service, points []claim.Coordinate, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problems {
	var problems refusal.Problems
	self, mayTake := claim.ServiceHolder(svc.Namespace, svc.Name), MayTake(svc)
	told := sets.New[claim.Coordinate]() // for its class, and for none
	for _, at := range points {
		held := facts.Claim(at.Name())
		if held == nil {
			held = ofAnyClass(facts, at, self)
		}
		if held == nil && !servedBefore(facts, svc, at) {
			// The ledger may not have it yet, or have it by its host only.
			held = servedBeside(facts, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}, at)
		}
		if held == nil || claim.HolderOf(held) == self || mayTake(held) || told.Has(at.ServedBy("")) {
			continue
		}
		if len(problems) < mostPathProblems && yields(facts, at, held, self) { // each may be looked at live; by then it is refused in any case
			continue
		}
		told.Insert(at.ServedBy(""))
		problems = append(problems, Conflict(facts, svc, at, held, graceLeft(held))...)
	}
	return problems
}

// servedBeside is the claim that the first Ingress of another name would have which serves a point, nil for none.
func servedBeside(facts Facts, own types.NamespacedName, at claim.Coordinate) *v1beta1.EdgeClaim {
	ing := facts.ForeignIngress(at, own)
	if ing == nil {
		return nil
	}
	held := claim.New(at, claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID})
	held.CreationTimestamp = ing.CreationTimestamp
	return held
}

// MayTake says which claims a Service may take over: those of the Ingress of its name, which the ledger has entered by
// what it serves. Whether that Ingress is the Service's own is for Writable to say.
func MayTake(svc *corev1.Service) claim.MayTake {
	own := claim.IngressHolder(svc.Namespace, svc.Name)
	return func(c *v1beta1.EdgeClaim) bool { return claim.HolderOf(c) == own }
}

// Conflict tells a Service that a point is held: by whom and since when. graceLeft is how long the ledger keeps the
// claim if its holder is gone.
func Conflict(
	facts Facts, svc *corev1.Service, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) refusal.Problems {
	whose, ways := whose(facts, at, held, claim.ServiceHolder(svc.Namespace, svc.Name), graceLeft)
	return refusal.One(v1beta1.ReasonHostConflict, refusal.Duplicate(AnnotationPath(), at.Point(), fmt.Sprintf(
		"path %s on host %s%s is %s; choose another host or path, for example host=%s, path=%s%s",
		at.Path(), at.Host(), ofClass(at), whose, at.Host(), otherPath(at.Path()), ways)))
}

// whose says who holds a point that somebody asks for, and since when; of a holder that is leaving, which Ingress of its namespace serves
// the point beside it, or when it is free again. ways are what its holder could do about it.
func whose(
	facts Facts, at claim.Coordinate, held *v1beta1.EdgeClaim, by claim.Holder, graceLeft time.Duration,
) (text, ways string) {
	has, err := claim.Of(held) // which may be of another class, or of none
	if err != nil {
		has = at
	}
	holder := claim.HolderOf(held)
	if holder == by {
		return fmt.Sprintf("handed over to %s by what asks for it, and its own until that is stored", claim.HeirOf(held)), ""
	}
	leaving := isLeaving(facts, held, has)
	if leaving && !holder.IsService() {
		next := servedBeside(facts, types.NamespacedName{}, has)
		if next != nil && claim.HolderOf(next).Tenant() == holder.Tenant() {
			return refusal.Held(next, false, 0), handOver(at, next, by, false)
		}
		leaving = graceLeft > 0
	}
	return refusal.Held(seenBy(by, held), leaving, graceLeft), handOver(at, held, by, leaving)
}

// ofClass is the class of a point in a sentence, as two may be served at one host and path.
func ofClass(at claim.Coordinate) string {
	if at.IngressClass() == "" {
		return ""
	}
	return " of class " + at.IngressClass()
}

func otherPath(path string) string {
	if path == "/" {
		return "/other"
	}
	return path + "-other"
}

// isLeaving says whether a Service that holds a point is gone, or requests another; or whether an Ingress is gone that was promised it, or
// serves another. A Service that is being deleted stays as long as its Ingress does.
func isLeaving(facts Facts, held *v1beta1.EdgeClaim, at claim.Coordinate) bool {
	holder := claim.HolderOf(held)
	if !holder.IsService() {
		if held.Spec.Renewed == nil { // made for what was served, as a cache may not show it
			return false
		}
		ing := facts.Ingress(holder.Key())
		return ing == nil || !Serves(ing, at)
	}
	svc := facts.Service(holder.Key())
	if svc == nil {
		return true
	}
	if svc.DeletionTimestamp == nil {
		defaults := facts.Defaults(holder.Key())
		if at.IngressClass() == "" { // which stands for any, where earlier versions run
			e, _ := RequestOf(svc, defaults)
			at = at.ServedBy(e.Class)
		}
		return !Wants(svc, defaults, at)
	}
	ing := facts.Ingress(holder.Key())
	return ing == nil || !Serves(ing, at)
}

// Unheld are those of some points that a Service, as it is stored, does not hold for good: it has no claim on them, or has one and
// does not request them, so that it may be released. before is nil for a Service that is not stored yet.
func Unheld(facts Facts, before *corev1.Service, points []claim.Coordinate) []claim.Coordinate {
	if before == nil {
		return points
	}
	holder := claim.ServiceHolder(before.Namespace, before.Name)
	var requested []claim.Coordinate
	if _, requests := Annotation(before); requests {
		e, _ := RequestOf(before, facts.Defaults(holder.Key())) // which has no points if it can't be read
		requested = Wanted(facts, e)
	}
	return slices.DeleteFunc(slices.Clone(points), func(at claim.Coordinate) bool {
		if !slices.Contains(requested, at) {
			return false
		}
		c := facts.Claim(at.Name())
		return c != nil && claim.HolderOf(c) == holder
	})
}

// BeingDeleted refuses what a Service that is being deleted requests and does not have.
func BeingDeleted() refusal.Problems {
	return refusal.Problems{refusal.BeingDeleted(AnnotationPath())}
}
