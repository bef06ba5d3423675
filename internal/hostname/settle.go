package hostname

import (
	"cmp"
	"fmt"
	"slices"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Loss is an object that uses a host name which another namespace has.
type Loss struct {
	User User
	Name Name
	// Held is the claim, or what it will be, of the namespace that has the name, or one that overlaps.
	Held *v1beta1.EdgeClaim
	// Given says that the object has handed the name over to that namespace.
	Given bool
}

// String says who has what the object uses.
func (l Loss) String() string {
	return fmt.Sprintf("%s: %s is %s", l.Name.Path, l.Held.Spec.Point, refusal.Held(l.Held, false, 0))
}

// Key says whether two losses are the same to whom they are told.
func (l Loss) Key() string {
	return lossKey(l.Name.Host+" "+l.Held.Spec.Point, l.Held, l.Given)
}

func lossKey(at string, held *v1beta1.EdgeClaim, given bool) string {
	key := at + " " + claim.HolderOf(held).String()
	if given {
		key += ", given"
	}
	return key
}

// Settled is whose a host name is to be.
type Settled struct {
	// Enter is the claim that is to be made, or taken over, nil for none.
	Enter *claim.Entry
	// Handed says that it is another's, and handed over: until it is taken over, Lost says who has lost as it is.
	Handed bool
	// Lost are the objects that use the name though it is another's.
	Lost []Loss
	// Waits says that a claim is in the way which is about to be released.
	Waits bool
}

// Settle says whose a host name is to be of those whose objects use it, and whose objects use it though it is another's. A claim stays,
// unless its namespace hands it over to one of them; without one, the name is that of the oldest object's namespace, of those that the
// policy gives it to, and that may have one more.
func Settle(f Facts, host string) (s Settled) {
	at := claim.Hostname(host)
	policy := f.HostPolicies().Owner(host)
	if policy == nil || at.IsZero() || len(claim.Suffixes(host)) >= MostLabels {
		return s
	}
	users := f.Using(host)
	if len(users) == 0 {
		return s
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key().String(), b.Key().String()), cmp.Compare(a.Kind, b.Kind))
	})
	held := f.Claim(at.Name())
	if held == nil {
		held, s.Enter = settleAnew(f, policy, users, at)
	} else {
		s.Enter = handedOver(f, policy, users, at, held)
		s.Handed = s.Enter != nil
	}
	if held == nil || isLeaving(f, held) { // then it is nobody's loss
		s.Waits = held != nil
		return s
	}
	for _, u := range users {
		if claim.HolderOf(held) == claim.NamespaceHolder(u.Namespace) {
			continue
		}
		i := slices.IndexFunc(u.Names, func(n Name) bool { return n.Host == host })
		s.Lost = append(s.Lost, Loss{User: u, Name: u.Names[max(i, 0)], Held: held, Given: u.gave(held)})
	}
	return s
}

// handedOver is the claim of the namespace of that one of some users to whom the holder of a claim hands it over, if that one may have
// it; nil for none.
func handedOver(f Facts, policy *Policy, users []User, at claim.Coordinate, held *v1beta1.EdgeClaim) *claim.Entry {
	for i := range users {
		u := &users[i]
		by := claim.NamespaceHolder(u.Namespace)
		if claim.HolderOf(held) != by && policy.Allows(f.NamespaceLabels(u.Namespace)) && yields(f, at, held, u) &&
			f.Overlapping(at, by) == nil && len(Limit(f, &Request{User: *u}, []claim.Coordinate{at})) == 0 {
			return &claim.Entry{By: u.Claimant(claim.Version(u.Version)), At: at}
		}
	}
	return nil
}

// settleAnew says whose a name is to be that nobody has: what is in the way of the one who is to have it, or the claim that it will be.
func settleAnew(f Facts, policy *Policy, users []User, at claim.Coordinate) (held *v1beta1.EdgeClaim, enter *claim.Entry) {
	for i := range users {
		u := &users[i]
		if !policy.Allows(f.NamespaceLabels(u.Namespace)) {
			continue
		}
		if held := f.Overlapping(at, claim.NamespaceHolder(u.Namespace)); held != nil {
			return held, nil
		}
		if len(Limit(f, &Request{User: *u}, []claim.Coordinate{at})) > 0 {
			continue
		}
		by := u.Claimant(claim.Version(u.Version))
		return claim.New(at, by), &claim.Entry{By: by, At: at}
	}
	return nil, nil
}
