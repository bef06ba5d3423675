package hostname

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Facts are what the rules for host names see of the cluster.
type Facts interface {
	// HostPolicies are the policies of the cluster.
	HostPolicies() *Book
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
	// Claim is the claim of a name, nil for none.
	Claim(name string) *v1beta1.EdgeClaim
	// Held are the points that a holder has claims on.
	Held(by claim.Holder) []claim.Coordinate
	// Promised are the points that others hand over to a holder, which is yet to be seen stored.
	Promised(to claim.Holder) []claim.Coordinate
	// Overlapping is a claim of another holder on a wildcard that stands for a name, or on a name for which a wildcard stands, of those of
	// one policy; nil for none.
	Overlapping(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim
	giving
	// Using are the objects that use a host name, as far as it is guarded in them.
	Using(host string) []User
	// UsedIn says whether anything in a namespace uses a host name that is guarded there, or an Ingress serves it.
	UsedIn(namespace, host string) bool
}

// Request is what an object asks for by the host names that it uses.
type Request struct {
	User
	// Before are those that it has been stored with. What stands keeps what it has.
	Before []Name
	// Serving are those that are served for it already: rules for namespaces are not for them.
	Serving []Name
}

// mostProblems is how many names a refusal is about.
const mostProblems = 8

// asked are the names that a request uses anew, each once.
func (r *Request) asked() (names []Name) {
	had := sets.New[string]()
	for _, n := range r.Before {
		had.Insert(key(n))
	}
	for _, n := range r.Names {
		if !had.Has(key(n)) {
			had.Insert(key(n))
			names = append(names, n)
		}
	}
	return names
}

// key is the same for two names that are the same.
func key(n Name) string {
	if n.Flaw != "" {
		return n.Path.String() + "\n" + string(n.Whole[:])
	}
	return string(n.Kind) + "\n" + n.Host
}

// serves says whether a name is served for the object already.
func (r *Request) serves(host string) bool {
	return slices.ContainsFunc(r.Serving, func(n Name) bool { return n.Host == host })
}

// Verdict is what the rules say of a request.
type Verdict struct {
	Problems refusal.Problems
	// Points are the names that the namespace has to have, and Fresh those of them, of policies with a limit, that nothing there uses yet.
	Points, Fresh []claim.Coordinate
}

// Judge says what is wrong with the host names that an object asks for anew, as far as is known without asking the API server, and which of
// them its namespace has to have.
func Judge(f Facts, r *Request, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (v Verdict) {
	book := f.HostPolicies()
	if book.IsEmpty() {
		return v
	}
	for _, n := range r.asked() {
		p := book.For(n.Host)
		if n.Flaw != "" && !book.Owns() || n.Flaw == "" && p == nil {
			continue
		}
		problems, at := judgeOne(f, r, n, p, graceLeft)
		if len(v.Problems) < mostProblems {
			v.Problems = append(v.Problems, problems...)
		}
		if !at.IsZero() && !slices.Contains(v.Points, at) {
			v.Points = append(v.Points, at)
		}
	}
	if len(v.Points) > MostNames {
		v.Problems = refusal.One(v1beta1.ReasonTooManyPoints, &field.Error{
			Type: field.ErrorTypeTooMany, Field: r.pathOf(v.Points[0]).String(), BadValue: len(v.Points),
			Detail: fmt.Sprintf("an object may ask for at most %d host names at a time that belong to namespaces: spread them over several",
				MostNames),
		})
	}
	if len(v.Problems) == 0 && len(v.Points) > 0 {
		v.Fresh = fresh(f, r, v.Points)
		v.Problems = Limit(f, r, v.Fresh)
	}
	return v
}

// fresh are those of some names, of policies with a limit, that the namespace comes to have. What was promised to an object that was never
// stored is no more than what was never promised.
func fresh(f Facts, r *Request, points []claim.Coordinate) (fresh []claim.Coordinate) {
	by := claim.NamespaceHolder(r.Namespace)
	for _, at := range points {
		if !f.HostPolicies().Limits(at.Host()) || r.serves(at.Host()) {
			continue
		}
		if held := f.Claim(at.Name()); held == nil || claim.HolderOf(held) != by || !f.UsedIn(r.Namespace, at.Host()) {
			fresh = append(fresh, at)
		}
	}
	return fresh
}

// judgeOne judges one name, of which a policy speaks, or that can't be told. at is zero where namespaces may share it.
func judgeOne(
	f Facts, r *Request, n Name, p *Policy, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) (problems refusal.Problems, at claim.Coordinate) {
	if n.Flaw != "" {
		return refusal.One(v1beta1.ReasonHostNotAllowed, field.Invalid(n.Path, n.Text, n.Flaw+
			"; some names belong to namespaces here, by a HostPolicy: list the names, each for itself")), at
	}
	if !r.serves(n.Host) && !p.Allows(f.NamespaceLabels(r.Namespace)) {
		return refusal.One(v1beta1.ReasonHostNotAllowed, field.Invalid(n.Path, n.Text, fmt.Sprintf(
			"%s gives this name to other namespaces than %q (spec.namespaceSelector); use another name, or ask who keeps the policy",
			p, r.Namespace))), at
	}
	if p.Shares() {
		return nil, at
	}
	at = claim.Hostname(n.Host)
	switch {
	case at.IsZero() || len(claim.Suffixes(n.Host)) >= MostLabels:
		return refusal.One(v1beta1.ReasonHostNotAllowed, field.Invalid(n.Path, n.Text, fmt.Sprintf(
			"can't be the name of a namespace, as those of %s are: want a DNS name of at most %d labels", p, MostLabels))), claim.Coordinate{}
	case r.Deleting:
		return refusal.Problems{refusal.BeingDeleted(n.Path)}, at
	}
	if held := inTheWay(f, &r.User, at); held != nil {
		return conflict(f, r, n.Path, n.Text, at, p, held, graceLeft), at
	}
	return nil, at
}

// inTheWay is the claim of another namespace that has a name, and does not give it to who asks, or one that can't be beside it; nil for
// none.
func inTheWay(f Facts, asks *User, at claim.Coordinate) *v1beta1.EdgeClaim {
	by := claim.NamespaceHolder(asks.Namespace)
	if held := f.Claim(at.Name()); held != nil {
		switch {
		case claim.HolderOf(held) == by:
			return nil
		case !yields(f, at, held, asks):
			return held
		}
	}
	return f.Overlapping(at, by)
}

// Conflict says that a name is held, which was found out as it was claimed.
func Conflict(
	f Facts, r *Request, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problems {
	return conflict(f, r, r.pathOf(at), at.Host(), at, f.HostPolicies().For(at.Host()), held, graceLeft)
}

// pathOf is where a request asks for a name.
func (r *Request) pathOf(at claim.Coordinate) *field.Path {
	if i := slices.IndexFunc(r.Names, func(n Name) bool { return n.Host == at.Host() }); i >= 0 {
		return r.Names[i].Path
	}
	return field.NewPath("spec")
}

// conflict says who has a name, and by which policy that is so. It never shows a way to a name that is another's.
func conflict(
	f Facts, r *Request, path *field.Path, text string, at claim.Coordinate, p *Policy, held *v1beta1.EdgeClaim,
	graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problems {
	what := ""
	if held.Spec.Point != at.Host() {
		what = held.Spec.Point + ", which overlaps, is "
	}
	by := ""
	if p != nil {
		by = fmt.Sprintf(", and by %s a name is one namespace's", p)
	}
	leaving := isLeaving(f, held)
	return refusal.One(v1beta1.ReasonHostConflict, refusal.Duplicate(path, text, fmt.Sprintf(
		"%s%s%s, whichever kind or proxy serves it; use a name that nobody has%s",
		what, refusal.Held(seenBy(&r.User, held), leaving, graceLeft(held)), by,
		handOver(f, at, held, &r.User, leaving, graceLeft(held), "use it"))))
}

// isLeaving says whether nothing in the namespace that holds a name uses it any longer, or yet.
func isLeaving(f Facts, held *v1beta1.EdgeClaim) bool {
	holder := claim.HolderOf(held)
	return holder.IsNamespace() && !held.CreationTimestamp.IsZero() && !f.UsedIn(holder.Name, held.Spec.Point)
}

// Limit refuses more names of a policy than it gives to one namespace. fresh are those that the namespace comes to have, whether it has
// claimed them by now or not.
func Limit(f Facts, r *Request, fresh []claim.Coordinate) refusal.Problems {
	book := f.HostPolicies()
	if !slices.ContainsFunc(fresh, func(at claim.Coordinate) bool { return book.Limits(at.Host()) }) {
		return nil
	}
	has, gets := map[*Policy]int{}, sets.New(fresh...)
	by := claim.NamespaceHolder(r.Namespace)
	for _, at := range slices.Concat(f.Held(by), f.Promised(by)) {
		if !at.IsHostname() || gets.Has(at) {
			continue
		}
		if p := book.Owner(at.Host()); p != nil {
			has[p]++
		}
	}
	more := map[*Policy]int{}
	for _, at := range fresh {
		if !book.Limits(at.Host()) {
			continue
		}
		p := book.Owner(at.Host())
		more[p]++
		if most := int(*p.Spec.MaxPerNamespace); has[p]+more[p] > most {
			return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Invalid(r.pathOf(at), at.Host(), fmt.Sprintf(
				"%s gives at most %d name(s) to one namespace (spec.maxPerNamespace), and namespace %q has %d: use one of those, or give one up",
				p, most, r.Namespace, has[p])))
		}
	}
	return nil
}

// Refusing is the policy that has a request refused, nil where none speaks of the name that the first problem is about.
func Refusing(book *Book, r *Request, problems refusal.Problems) *Policy {
	for _, n := range r.asked() {
		if p := book.For(n.Host); p != nil && len(problems) > 0 && n.Path.String() == problems[0].Err.Field {
			return p
		}
	}
	return nil
}
