// Package refusal is how Portcullis says no: what is wrong with an object, as the rules of every feature return it, and the
// words that their refusals have in common.
//
// One value becomes the cause in the API status of an admission, the reason and message of a condition, and the label of a
// metric.
package refusal

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Problem is one thing that is wrong with an object.
type Problem struct {
	// Reason is the reason of the condition that tells it.
	Reason string
	// Err names the field, its value, and the reason in words.
	Err *field.Error
}

// Problems are all things that are wrong with an object.
type Problems []Problem

// ErrorList is the problems as API machinery has them.
func (p Problems) ErrorList() field.ErrorList {
	errs := make(field.ErrorList, 0, len(p))
	for _, problem := range p {
		errs = append(errs, problem.Err)
	}
	return errs
}

// One is a single problem.
func One(reason string, err *field.Error) Problems { return Problems{{Reason: reason, Err: err}} }

// BeingDeleted tells an object that is being deleted that it can't have what it asks for now. Finalizers let it live, and be
// changed, for as long as its owner likes.
func BeingDeleted(path *field.Path) Problem {
	return Problem{Reason: v1beta1.ReasonBeingDeleted, Err: field.Forbidden(path, "the object is being deleted: "+
		"until it is gone it keeps what it has, and it is given nothing more; create another one")}
}

// Duplicate is field.Duplicate with a sentence, which the constructor takes none of.
func Duplicate(path *field.Path, value, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: value, Detail: detail}
}

// Detailed adds a sentence to an error whose constructor takes none.
func Detailed(err *field.Error, detail string) *field.Error {
	err.Detail = detail
	return err
}

// Held says who holds a point, and since when; or, of a holder that is leaving, when the point is free again. graceLeft is how
// long the ledger keeps the claim if its holder is gone.
func Held(held *v1beta1.EdgeClaim, leaving bool, graceLeft time.Duration) string {
	holder := claim.HolderOf(held).String()
	if leaving {
		return "held for " + holder + ", which is not stored or no longer asks for it; it is free again " + Soon(graceLeft) + ", try again then"
	}
	return HeldBy(held, "")
}

// HeldBy says who holds a point, since when, on what, if that is said, and to whom it is being handed over.
func HeldBy(held *v1beta1.EdgeClaim, on string) string {
	return "held by " + claim.HolderOf(held).String() + Since(held) + on + beingHanded(held)
}

// Since says when an object was created, if that is known.
func Since(obj metav1.Object) string {
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		return " since " + created.UTC().Format(time.RFC3339)
	}
	return ""
}

// Soon says when something is over that lasts at most so long.
func Soon(left time.Duration) string {
	if left <= time.Second {
		return "within seconds"
	}
	return "in at most " + left.Round(time.Second).String()
}

// WayOut says what who has reached a limit can do. leaving is how many points are about to be free.
func WayOut(leaving int, what string) string {
	if leaving > 0 {
		return fmt.Sprintf(", of which %d will be free again soon: try again then, or delete %s", leaving, what)
	}
	return ": delete " + what
}
