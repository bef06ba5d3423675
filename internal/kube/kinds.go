package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Kinds tells an object that was deleted from one that vanished with its kind.
//
// The API server marks a CustomResourceDefinition as being deleted before it deletes the first of its instances. So
// whoever finds an instance absent and asks for the definition afterwards learns which of the two it was. An answer from
// before, or from a cache, would not tell.
type Kinds struct {
	live  client.Reader
	clock clock.PassiveClock
	log   logr.Logger

	mu sync.Mutex
	// gone says why Portcullis is being uninstalled, nil when it is not, and asked when that was found out.
	gone  *UninstallingError
	asked time.Time
	// denied is since when the API server refuses to say, zero when it does not.
	denied time.Time
}

// NewKinds makes Kinds that read live, from no cache.
func NewKinds(live client.Reader, log logr.Logger) *Kinds {
	return &Kinds{live: live, clock: clock.RealClock{}, log: log}
}

// UninstallingError says that absent objects may have vanished with their kind, so that nothing follows from it.
type UninstallingError struct {
	// Reason is what the API server says of the kinds.
	Reason string
}

// Error gives the reason.
func (e *UninstallingError) Error() string { return "Portcullis is being uninstalled: " + e.Reason }

const (
	// goneFor is how long it is believed without asking that Portcullis is being uninstalled.
	goneFor = 5 * time.Second
	// deniedFor is how long a Portcullis that is being uninstalled may outlive its roles. One that lives on has lost them
	// for another reason, about which somebody has to be told.
	deniedFor = 2 * time.Minute
)

// definitions are the kinds without which Portcullis does not work, as plurals: what it opens follows from their
// instances. PodToIP is none of them.
var definitions = []string{"addresspools", "edgeclaims", "hostpolicies", "streamingressclasses", "streamingresses"}

// Check asks whether all kinds are there to stay, and returns when the last of them came. If one is being deleted or
// gone, the error is an *UninstallingError, and also, for two minutes, if that may not be asked (any longer). Any other is
// the API server's.
func (k *Kinds) Check(ctx context.Context) (since time.Time, err error) {
	if gone := k.remembered(); gone != nil {
		return time.Time{}, gone
	}
	a, err := k.ask(ctx)
	if err == nil {
		err = k.remember(a)
	}
	return a.since, err
}

// answer is what the API server says of the kinds.
type answer struct {
	// since is when the last of them came, if gone is empty. Otherwise Portcullis is being uninstalled, and gone says why.
	since time.Time
	gone  string
	// denied is the refusal to say more, nil without one.
	denied error
}

func (k *Kinds) ask(ctx context.Context) (a answer, err error) {
	for _, plural := range definitions {
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		name := plural + "." + v1beta1.GroupName
		err := k.live.Get(ctx, types.NamespacedName{Name: name}, definition)
		switch {
		case apierrors.IsNotFound(err):
			return answer{gone: err.Error()}, nil
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return answer{gone: err.Error(), denied: err}, nil // roles and accounts go with the rest, in any order
		case err != nil:
			return answer{}, fmt.Errorf("asking for the CustomResourceDefinition %s: %w", name, err)
		case definition.DeletionTimestamp != nil:
			return answer{gone: fmt.Sprintf("the CustomResourceDefinition %s is being deleted", name)}, nil
		}
		if came := definition.CreationTimestamp.Time; came.After(a.since) {
			a.since = came
		}
	}
	return a, nil
}

func (k *Kinds) remembered() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone != nil && k.clock.Since(k.asked) < goneFor {
		return k.gone
	}
	return nil
}

// remember keeps an answer, and tells when it is another one than before.
func (k *Kinds) remember(a answer) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case a.denied == nil:
		k.denied = time.Time{}
	case k.denied.IsZero():
		k.denied = k.clock.Now()
	case k.clock.Since(k.denied) >= deniedFor:
		return fmt.Errorf("whether Portcullis is being uninstalled can't be told, so that nothing is closed: %w", a.denied)
	}
	if a.gone == "" {
		if k.gone != nil {
			k.log.Info("Portcullis is installed again")
		}
		k.gone = nil
		return nil
	}
	if k.gone == nil {
		k.log.Info("Portcullis is being uninstalled, and leaves everything as it is", "reason", a.gone)
	}
	k.gone, k.asked = &UninstallingError{Reason: a.gone}, k.clock.Now()
	return k.gone
}
