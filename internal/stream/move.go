package stream

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// A stream that names another class moves there without closing: it holds a point of either class, the one that it had stays open
// until the new one is, and then for closesAfter, in which clients learn the new address. Which one it had is in the status, that no
// tenant can write; so nobody has more than two doors for one stream, and none is kept by an edit alone.

// closesAfter is how long a stream stays open at its former door once it is open at the new one, at least; it is less than a second
// more.
const closesAfter = 5 * time.Second

// Opens is the point of a class at which a stream is to be open if it may be at all: the one that it wants there, or the one that it
// had, while it moves to another class; zero for none. held are the points that it has claims on.
func Opens(s *v1beta1.StreamIngress, class string, held []claim.Coordinate) claim.Coordinate {
	if name := cmp.Or(s.Spec.ClassName, s.Status.ClassName); name == "" || name == class {
		return Wanted(s, class, held)
	}
	if former := Former(s, held); former.Class() == class {
		return former
	}
	return claim.Coordinate{}
}

// Former is the point of another class than its own at which a stream still is, zero for none: the one that its status speaks of, if
// that is open, or else the one that the status remembers. held are the points that it has claims on. One that is being deleted is done
// with moving: it keeps nothing by a finalizer but what it has where it wants to be.
func Former(s *v1beta1.StreamIngress, held []claim.Coordinate) claim.Coordinate {
	class, p := cmp.Or(s.Spec.ClassName, s.Status.ClassName), s.Status.Previous
	if class == "" || s.DeletionTimestamp != nil {
		return claim.Coordinate{}
	}
	isFormer := func(claim.Coordinate) bool { return false }
	isOpen := meta.IsStatusConditionTrue(s.Status.Conditions, v1beta1.ConditionProgrammed)
	switch {
	case s.Status.ClassName != class && (isOpen || p == nil):
		isFormer = func(at claim.Coordinate) bool {
			return at.Class() == s.Status.ClassName && at.Port() == s.Status.Listen
		}
	case p != nil && p.ClassName != class:
		isFormer = func(at claim.Coordinate) bool { return at == claim.Stream(p.ClassName, p.Protocol, p.Listen) }
	}
	if i := slices.IndexFunc(held, isFormer); i >= 0 {
		return held[i]
	}
	return claim.Coordinate{}
}

// PreviousDoor is what the status of a stream is to say of the door that it had, nil once that is to be closed. before is what it says,
// and isOpen says whether the stream is open at the new one.
func PreviousDoor(former claim.Coordinate, before *v1beta1.PreviousDoor, isOpen bool, now time.Time) *v1beta1.PreviousDoor {
	if former.IsZero() {
		return nil
	}
	door := &v1beta1.PreviousDoor{ClassName: former.Class(), Protocol: former.Protocol(), Listen: former.Port()}
	if !isOpen {
		return door
	}
	// In whole seconds, as the API writes time.
	door.CloseTime = &metav1.Time{Time: now.Truncate(time.Second).Add(closesAfter + time.Second)}
	if before == nil || before.CloseTime == nil || before.ClassName != door.ClassName || before.Protocol != door.Protocol ||
		before.Listen != door.Listen {
		return door
	}
	if !before.CloseTime.After(now) {
		return nil
	}
	door.CloseTime = before.CloseTime
	return door
}
