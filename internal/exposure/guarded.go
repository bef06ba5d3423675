package exposure

import (
	"fmt"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// PathRequest is what an Ingress that somebody writes asks for of hosts and paths.
type PathRequest struct {
	Ingress *networkingv1.Ingress
	// Before is the Ingress as it is stored, nil for a new one. What it serves it keeps.
	Before *networkingv1.Ingress
	// IsOwned says of a host that it is one namespace's with all its paths, by a HostPolicy; nothing is to be said of them then.
	IsOwned func(host string) bool
}

// PathVerdict is what the rules say of such a request.
type PathVerdict struct {
	Problems refusal.Problems
	// Points are those that the Ingress has to have, by a claim of its own or by one that it has beside its holder.
	Points []claim.Coordinate
}

const (
	// MostPaths is how many of the hosts and paths that an Ingress comes to serve are claimed when it is written: who writes it waits for
	// all of them. Of more than that, the others are looked for, and claimed by nobody until they are stored.
	MostPaths = 256
	// mostPathProblems is how many paths a refusal is about.
	mostPathProblems = 8
)

// JudgePaths says which of the hosts and paths that an Ingress asks for anew are served for another namespace, by the same class. Within a
// namespace nothing is refused: canaries and Ingresses that a proxy merges serve one path together. Nor is what another namespace hands
// over to the Ingress, unless that hands over what it has itself. graceLeft says how long a claim is kept if its holder is gone.
func JudgePaths(facts Facts, r PathRequest, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (v PathVerdict) {
	wanted := r.anew()
	switch {
	case IsOfTwoClasses(r.Ingress) && (len(wanted) > 0 || r.Before == nil || !IsOfTwoClasses(r.Before)):
		v.Problems = refusal.One(v1beta1.ReasonInvalidAnnotation, field.Invalid(
			field.NewPath("metadata", "annotations").Key(v1beta1.AnnotationIngressClass), r.Ingress.Annotations[v1beta1.AnnotationIngressClass],
			fmt.Sprintf("names another class than spec.ingressClassName, which is %q, and nobody can say which of the two proxies serves the "+
				"Ingress: take the annotation out", *r.Ingress.Spec.IngressClassName)))
		return v
	case len(wanted) == 0:
		return v
	case r.Ingress.DeletionTimestamp != nil:
		v.Problems = refusal.Problems{refusal.BeingDeleted(pathOfPoint(r.Ingress, wanted[0]))}
		return v
	case len(wanted) > MostEntries:
		v.Problems = TooManyPaths(len(wanted), fmt.Sprintf("an Ingress may ask for at most %d hosts and paths at a time that it does not "+
			"serve yet: spread them over several, or add them one part after the other", MostEntries))
		return v
	}
	for _, at := range wanted {
		held := heldBy(facts, r.Ingress, at)
		if held == nil || r.Beside(held) != claim.Apart || yieldsTo(facts, r, at, held) {
			v.Points = append(v.Points, at)
			continue
		}
		v.Problems = append(v.Problems, PathConflict(facts, r, at, held, graceLeft(held))...)
		if len(v.Problems) == mostPathProblems { // each is looked at live
			break
		}
	}
	v.Points = v.Points[:min(len(v.Points), MostPaths)]
	return v
}

// TooManyPaths says that an object asks for more hosts and paths than it may, by its rules.
func TooManyPaths(asked int, detail string) refusal.Problems {
	return refusal.One(v1beta1.ReasonTooManyPoints, &field.Error{
		Type: field.ErrorTypeTooMany, Field: field.NewPath("spec", "rules").String(), BadValue: asked, Detail: detail,
	})
}

// anew are the points that an Ingress comes to serve, but for those on hosts that are one namespace's as such.
func (r PathRequest) anew() []claim.Coordinate {
	var served []claim.Coordinate
	if r.Before != nil {
		served = PointsOf(r.Before)
	}
	return slices.DeleteFunc(PointsOf(r.Ingress), func(at claim.Coordinate) bool {
		_, had := slices.BinarySearchFunc(served, at, claim.Compare)
		return had || r.IsOwned(at.Host())
	})
}

// heirs are who may have been handed over what the Ingress asks for: itself, or the Service that it is made for.
func (r PathRequest) heirs() []claim.Holder {
	self := claim.IngressHolder(r.Ingress.Namespace, r.Ingress.Name)
	if MadeFor(r.Ingress) == "" {
		return []claim.Holder{self}
	}
	return []claim.Holder{self, claim.ServiceHolder(r.Ingress.Namespace, r.Ingress.Name)}
}

// Beside is what becomes of a claim that somebody else has on a point which an Ingress asks for: one of its namespace is for both. So
// Ingresses of one path may come and go, one after the other, and none of them lets another namespace in between. One that is promised to
// another namespace is for neither. Who has made the Ingress for the Service that has the claim looks after that itself.
func (r PathRequest) Beside(held *v1beta1.EdgeClaim) claim.Beside {
	holder, heir := claim.HolderOf(held), claim.HeirOf(held)
	switch {
	case holder.Tenant() != r.Ingress.Namespace, heir != claim.Holder{} && heir.Tenant() != r.Ingress.Namespace:
		return claim.Apart
	case holder.IsService() && holder.Name == r.Ingress.Name && held.Spec.Holder.UID != "" && MadeFor(r.Ingress) == held.Spec.Holder.UID:
		return claim.Kept
	default:
		return claim.Relied
	}
}

// heldBy is the claim on a point, or the one that the first Ingress would have that serves it, nil for none, and where that first one is of
// the same namespace.
func heldBy(facts Facts, ing *networkingv1.Ingress, at claim.Coordinate) *v1beta1.EdgeClaim {
	if held := facts.Claim(at.Name()); held != nil {
		return held
	}
	if held := ofAnyClass(facts, at, claim.IngressHolder(ing.Namespace, ing.Name)); held != nil {
		return held
	}
	return servedBeside(facts, types.NamespacedName{Namespace: ing.Namespace}, at)
}

// PathConflict tells an Ingress that a point is held: by whom and since when. graceLeft is how long the ledger keeps the claim if its
// holder is gone.
func PathConflict(facts Facts, r PathRequest, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problems {
	whose, ways := whose(facts, at, held, claim.IngressHolder(r.Ingress.Namespace, r.Ingress.Name), graceLeft)
	if HandsOver(r.Ingress) && yields(facts, at, held, r.heirs()...) {
		ways = fmt.Sprintf("; or remove the annotation %s: an Ingress that hands over what it has takes nothing over",
			v1beta1.AnnotationHandOverTo)
	}
	return refusal.One(v1beta1.ReasonHostConflict, refusal.Duplicate(pathOfPoint(r.Ingress, at), at.Point(), fmt.Sprintf(
		"path %s on host %s%s is %s; choose another host or path%s", at.Path(), at.Host(), ofClass(at), whose, ways)))
}

// pathOfPoint is where an Ingress lists a point.
func pathOfPoint(ing *networkingv1.Ingress, at claim.Coordinate) *field.Path {
	rules := field.NewPath("spec", "rules")
	for i := range ing.Spec.Rules {
		rule := &ing.Spec.Rules[i]
		if rule.Host != at.Host() {
			continue
		}
		if rule.HTTP == nil {
			return rules.Index(i).Child("host")
		}
		for j := range rule.HTTP.Paths {
			if pathOf(&rule.HTTP.Paths[j]).point() == at.Path() {
				return rules.Index(i).Child("http", "paths").Index(j).Child("path")
			}
		}
	}
	return rules
}

// PathLoss is a path that an Ingress serves though another namespace has it.
type PathLoss struct {
	At claim.Coordinate
	// Where the Ingress lists it, and Held the claim on it.
	Where *field.Path
	Held  *v1beta1.EdgeClaim
	// Given says that the Ingress has handed the path over to who has it.
	Given bool
}

// String says who has what the Ingress serves.
func (l PathLoss) String() string {
	return fmt.Sprintf("%s: %s%s is %s", l.Where, l.At.Point(), ofClass(l.At), refusal.Held(l.Held, false, 0))
}

// Key says whether two losses are the same to who is told of them.
func (l PathLoss) Key() string {
	key := l.At.String() + " " + claim.HolderOf(l.Held).String()
	if l.Given {
		key += ", given"
	}
	return key
}

// heirOf is to whom an Ingress, or the Service that it is made for, hands over what it holds; the zero Holder for nobody. isLeft says that
// it is the Service: what that has handed over is taken off the Ingress.
func heirOf(facts Facts, ing *networkingv1.Ingress) (heir claim.Holder, isLeft bool) {
	if MadeFor(ing) == "" {
		if to, named := claim.NamedHeir(ing); named {
			heir = claim.IngressHolder(to.Namespace, to.Name)
		}
	} else if svc := facts.Service(types.NamespacedName{Namespace: ing.Namespace, Name: ing.Name}); svc != nil {
		if to, named := claim.NamedHeir(svc); named {
			return claim.ServiceHolder(to.Namespace, to.Name), true
		}
	}
	return heir, false
}

// PathsLost are the paths that an Ingress serves though another namespace has the claim on them, at most mostPathProblems. Nothing is said
// of hosts that are one namespace's as such, nor of an Ingress that lists more than MostEntries paths.
func PathsLost(facts Facts, ing *networkingv1.Ingress, isOwned func(host string) bool) (lost []PathLoss) {
	if listsMore(ing, MostEntries) {
		return nil
	}
	heir, isLeft := heirOf(facts, ing)
	for _, at := range PointsOf(ing) {
		held := facts.Claim(at.Name())
		if held == nil || claim.HolderOf(held).Tenant() == ing.Namespace || isOwned(at.Host()) ||
			isLeaving(facts, held, at) {
			continue
		}
		given := claim.HolderOf(held) == heir
		if given && isLeft {
			continue
		}
		loss := PathLoss{At: at, Where: pathOfPoint(ing, at), Held: held, Given: given}
		if lost = append(lost, loss); len(lost) == mostPathProblems {
			break
		}
	}
	return lost
}
