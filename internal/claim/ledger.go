package claim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// DefaultGrace is how long a claim that is not settled is kept: an API request lives at most a minute unless the
// API server is told otherwise, two clocks may be half a minute apart, and half a minute is for good measure.
const DefaultGrace = 2 * time.Minute

// Store keeps claims. Its errors are those of the API: AlreadyExists from Create, NotFound from the others, Conflict
// from Update and Delete when the claim is no longer the version that was passed.
type Store interface {
	// Get reads the claim as it is stored now, from no cache.
	Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	// List reads all claims of a scope as they are stored at a version of claims, or later; empty for now.
	List(ctx context.Context, scope, version string) ([]v1beta1.EdgeClaim, error)
	// Create stores a new claim and fills in what the API server adds.
	Create(ctx context.Context, c *v1beta1.EdgeClaim) error
	// Update stores the claim if the stored version is the one passed.
	Update(ctx context.Context, c *v1beta1.EdgeClaim) error
	// Delete deletes the claim if the stored version is the one passed.
	Delete(ctx context.Context, c *v1beta1.EdgeClaim) error
}

// Ledger claims and releases points.
type Ledger struct {
	Store Store
	// Cached reads a claim from a cache that may lag behind; nil where there is none.
	Cached func(name string) *v1beta1.EdgeClaim
	// Seen says whether an object of the claimant's UID is known to have been stored at any time, so that no creation of
	// it is in flight, or, where a namespace is the claimant, no change up to its generation; nil where nothing is known. It may err
	// towards no.
	Seen func(ctx context.Context, by Claimant) bool
	// HandsOver says whether the holder of a claim, as it is stored now, hands it over to another object; nil where nobody does. promised
	// says that it was promised that before, which counts once the holder is gone.
	HandsOver func(ctx context.Context, found *v1beta1.EdgeClaim, to Claimant, promised bool) (bool, error)
	// HandedOver, if set, is told of a claim that has become another's because its holder has handed it over.
	HandedOver func(ctx context.Context, from v1beta1.ClaimHolder, to *v1beta1.EdgeClaim)
	// Overlapping knows of wildcards among host names; nil where no name stands for another.
	Overlapping Overlapping
	// ClassFor says for which IngressClass the holder of a path has it, if that is known; nil where it never is.
	ClassFor func(ctx context.Context, holder Holder) (class string, known bool, err error)
	// SideBySide is how many calls of the store are made at a time for one object, 0 for as many as an API server bears.
	SideBySide int
	Clock      clock.PassiveClock
	// Grace is how long a claim that is not settled is kept.
	Grace time.Duration
	// Promises bounds what is promised and not stored; nil for no bound.
	Promises *Promises
	// asksOnce says that HandsOver keeps its answers; see AskingOnce.
	asksOnce bool
}

// now is the time as it is stored.
func (l *Ledger) now() *metav1.MicroTime {
	return new(metav1.NewMicroTime(l.Clock.Now().Truncate(time.Microsecond)))
}

func (l *Ledger) cached(name string) *v1beta1.EdgeClaim {
	if l.Cached == nil {
		return nil
	}
	return l.Cached(name)
}

// live reads a claim, nil when there is none.
func (l *Ledger) live(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	found, err := l.Store.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// Entry is a point that somebody has, and that the ledger is to say so of.
type Entry struct {
	By Claimant
	At Coordinate
}

// New is a claim on a point, not stored yet.
func New(at Coordinate, by Claimant) *v1beta1.EdgeClaim {
	return &v1beta1.EdgeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: at.Name()},
		Spec: v1beta1.EdgeClaimSpec{
			Scope: at.Scope(), Point: at.Point(), Holder: by.spec(), HeldBy: by.String(), ClassName: by.ClassName,
			ExternalIP: by.ExternalIP, Adopted: by.Adopts,
		},
	}
}
