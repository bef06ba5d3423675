package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// A holder hands a point over to another object of its kind, which it names, and which asks for the point; a namespace, to that of an
// object which all of its own that have the point name. Whoever asks at admission may never be stored, by a quota for instance. So the
// claim stays the giver's with an heir, and is the heir's once that is stored: at no time is there no claim, or one of both, and a rival
// finds it held in between.

// MaxHeir is how long the annotation that names an heir can be to mean something, in bytes: a namespace, a slash and a name.
const MaxHeir = 63 + 1 + 253

// NamedHeir is the object to which another one, of the same kind, hands over what it holds, by its annotation; ok is false where that names
// none.
func NamedHeir(obj metav1.Object) (heir types.NamespacedName, ok bool) {
	namespace, name, _ := strings.Cut(obj.GetAnnotations()[v1beta1.AnnotationHandOverTo], "/")
	if name == "" || // as of most, of which it is asked all the time
		len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// HeirOf is the heir of a claim, with the zero Holder where it has none.
func HeirOf(c *v1beta1.EdgeClaim) Holder {
	if c.Spec.Heir == nil {
		return Holder{}
	}
	return holderIn(c.Spec.Heir.ClaimHolder)
}

// AsHeirs is a claim as if its heir had it already. The claim has an heir.
func AsHeirs(c *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	next := c.DeepCopy()
	heir := next.Spec.Heir
	next.Spec.Holder, next.Spec.HeldBy, next.Spec.Renewed = heir.ClaimHolder, HeirOf(c).String(), &heir.Renewed
	next.Spec.Heir, next.Spec.ExternalIP, next.Spec.ClassName = nil, false, ""
	return next
}

// takeOver makes the claimant the heir of a claim that another has, or its holder if the claimant is stored. It is a *HeldError unless the
// holder hands it over.
func (l *Ledger) takeOver(
	ctx context.Context, found *v1beta1.EdgeClaim, at Coordinate, by Claimant, isPromise bool,
) (*v1beta1.EdgeClaim, error) {
	handed, err := l.isHandedTo(ctx, found, by, !isPromise)
	switch {
	case err != nil:
		return nil, err
	case !handed:
		return nil, &HeldError{At: at, Claim: found}
	}
	// Before anything is written, as this is asked again and again while a rival stands. Who makes one meanwhile finds this claim, and takes
	// its own back.
	if err := l.checkRival(ctx, at, by.Holder, ""); err != nil {
		return nil, err
	}
	switch {
	case isPromise:
		return l.promise(ctx, found, at, by)
	case at.IsHostname() && HeirOf(found) != by.Holder: // of others that overlap, one of the two has to see the other: see promise
		if found, err = l.promise(ctx, found, at, by); err != nil {
			return nil, err
		}
	}
	next := l.handedTo(ctx, found, by)
	return next, l.handOver(ctx, found, next)
}

// isHandedTo says whether the claimant may have a claim in place of its holder: one that is about to be stored if the holder says so now,
// or is gone and had promised it; one that is stored if that very object was promised it, or the holder says so. While another is promised
// it, nobody else may.
//
// Of two objects of the heir's name that were promised it, one of which may be stored, the claim does not say which they were. Then the
// holder is asked again, and who got past admission under that name has nothing of a promise that was withdrawn.
func (l *Ledger) isHandedTo(ctx context.Context, found *v1beta1.EdgeClaim, by Claimant, isStored bool) (bool, error) {
	heir := HeirOf(found)
	switch {
	case !mayBeHandedTo(found, by), heir != (Holder{}) && heir != by.Holder:
		return false, nil
	case isStored && heir == by.Holder && IsPromised(found, by.UID):
		return true, nil
	case l.HandsOver == nil || l.mayBeJoined(ctx, found):
		return false, nil
	default:
		return l.HandsOver(ctx, found, by, heir == by.Holder && (!isStored || found.Spec.Heir.UID == ""))
	}
}

// mayBeJoined says whether an admission may be in flight that stores one more object for which a namespace has a claim: that one says of
// itself whether it hands over, and can't be asked yet.
func (l *Ledger) mayBeJoined(ctx context.Context, c *v1beta1.EdgeClaim) bool {
	holder, promised := HolderOf(c), c.Spec.Holder
	return holder.IsNamespace() && l.GraceLeft(c) > 0 && (promised.UID == "" || l.Seen == nil ||
		!l.Seen(ctx, Claimant{Holder: holder, UID: promised.UID, Generation: promised.Generation}))
}

// IsPromised says whether the object of a UID is known to have been promised a claim: whatever its holder says by now, it was told yes.
func IsPromised(c *v1beta1.EdgeClaim, uid types.UID) bool {
	return c.Spec.Heir != nil && uid != "" && c.Spec.Heir.UID == uid
}

// promise makes the claimant the heir of a claim. An API server whose EdgeClaims are of an earlier version drops the heir: then the claim
// stays held.
func (l *Ledger) promise(ctx context.Context, found *v1beta1.EdgeClaim, at Coordinate, by Claimant) (*v1beta1.EdgeClaim, error) {
	next := l.promisedTo(ctx, found, by)
	if err := l.Store.Update(ctx, next); err != nil {
		return nil, err
	}
	if HeirOf(next) != by.Holder {
		return nil, &HeldError{At: at, Claim: next}
	}
	if !at.IsHostname() {
		return next, nil
	}
	// Once more, by a cache that shows this promise: the holder may have come to have a name that overlaps a moment before. Who claims one
	// later finds this claim promised.
	rival, err := l.rival(ctx, at, by.Holder, next.ResourceVersion)
	if err != nil || rival == nil {
		return next, err
	}
	back := next.DeepCopy()
	back.Spec.Heir = found.Spec.Heir // which may be an earlier promise to the same
	err = l.Store.Update(ctx, back)
	if isOutdated(err) {
		err = nil
	}
	return nil, errors.Join(&HeldError{At: at, Claim: rival}, err)
}

// IsHandable says whether a claim is one that a Service can hand over as a load balancer: on an address, or a port of one, of its own.
func IsHandable(c *v1beta1.EdgeClaim) bool {
	at, err := Of(c)
	return err == nil && at.IsAddress() && HolderOf(c).IsService() && !c.Spec.ExternalIP && c.Spec.ClassName == ""
}

// promisedTo is a claim with the claimant as its heir, promised now. What an earlier promise to it binds, it still does.
func (l *Ledger) promisedTo(ctx context.Context, found *v1beta1.EdgeClaim, by Claimant) *v1beta1.EdgeClaim {
	next := found.DeepCopy()
	next.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: by.spec(), Renewed: *l.now()}
	if HeirOf(found) == by.Holder {
		kept := AsHeirs(next)
		l.keepPromises(ctx, AsHeirs(found), kept)
		next.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: kept.Spec.Holder, Renewed: *kept.Spec.Renewed}
	}
	return next
}

// handedTo is a claim when the claimant has it, which is stored. What was at the point before either of the two had it is remembered.
func (l *Ledger) handedTo(ctx context.Context, found *v1beta1.EdgeClaim, by Claimant) *v1beta1.EdgeClaim {
	next := by.having(found)
	next.Spec.Heir, next.Spec.Renewed, next.Spec.Adopted = nil, nil, found.Spec.Adopted
	if HeirOf(found) == by.Holder {
		l.keepPromises(ctx, AsHeirs(found), next)
	}
	return next
}

// Inherit makes a claim its heir's, if that is stored, wants the point, and may have it: it is what was promised the point, or the holder
// hands it over now. It has the claim forget an heir that does not, once no admission that promised it the point can still be in flight.
// The claim has to have been read before read looks at the heir, as for Release; it may come from a cache. gone is the UID of an heir that
// was seen stored and then deleted, empty where nothing was seen.
//
// It returns how long the heir has yet to be waited for, 0 once the claim has none. A Conflict error says that the claim is no longer as it
// was read.
func (l *Ledger) Inherit(ctx context.Context, c *v1beta1.EdgeClaim, read ReadHolder, gone types.UID) (keep time.Duration, err error) {
	heirs := AsHeirs(c)
	seen, err := read(ctx, heirs)
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", heirs.Spec.HeldBy, err)
	}
	waits := !settled(heirs, seen, gone)
	if seen.Exists && seen.Wants {
		by := Claimant{Holder: HolderOf(heirs), UID: seen.UID, Generation: seen.Generation}
		inherits, rival, err := l.inherits(ctx, c, by)
		if err != nil {
			return 0, err
		}
		if inherits && rival == nil {
			return 0, l.handOver(ctx, c, l.handedTo(ctx, c, by))
		}
		waits = waits || rival != nil // which may be about to be taken back
	}
	if waits {
		if keep := l.GraceLeft(heirs); keep > 0 {
			return keep, nil
		}
	}
	if err := l.disinherit(ctx, c); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("taking the heir off %s: %w", c.Name, err)
	}
	return 0, nil
}

// inherits says whether a stored object may have a claim of which it is the heir, and who has a claim beside which it can't be.
func (l *Ledger) inherits(ctx context.Context, c *v1beta1.EdgeClaim, by Claimant) (is bool, rival *v1beta1.EdgeClaim, err error) {
	if is, err = l.isHandedTo(ctx, c, by, true); err != nil || !is {
		return false, nil, err
	}
	at, err := Of(c)
	if err != nil {
		return false, nil, nil //nolint:nilerr // not as Portcullis writes claims
	}
	rival, err = l.rival(ctx, at, by.Holder, "")
	return is, rival, err
}

// handOver stores a claim as its next holder has it, and tells.
func (l *Ledger) handOver(ctx context.Context, before, next *v1beta1.EdgeClaim) error {
	if err := l.Store.Update(ctx, next); err != nil {
		return err
	}
	if l.HandedOver != nil {
		l.HandedOver(ctx, before.Spec.Holder, next)
	}
	return nil
}
