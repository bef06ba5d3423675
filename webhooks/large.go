package webhooks

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

const (
	// largeBody is how many bytes a request may have that never waits for others. Of what is judged here only Services with more
	// than a hundred ports are larger where nobody means it, like those in front of proxies: an update has the Service twice.
	largeBody = 64 << 10
	// largeBodies is how many bytes the large requests have together that are being answered. What is made of them takes some
	// three times as much.
	largeBodies = 16 << 20
	// mostBody is how many bytes are read of a request at most, by controller-runtime.
	mostBody = 7 << 20
)

// bodies has large requests wait for each other before they are read: a tenant can have any number of them answered at once,
// also by dry runs.
type bodies struct {
	turns *semaphore.Weighted
}

func newBodies() bodies { return bodies{semaphore.NewWeighted(largeBodies)} }

// take waits until a request may be read and answered, and has to be followed by done. It fails when the API server is about to
// give up. A body that is not there when it has fails to be read: whoever sends it slowly takes no room of others for longer. Nor
// does who has much open already: the decision, with the context that is returned, does not wait for that to settle.
func (b bodies) take(ctx context.Context, w http.ResponseWriter, r *http.Request) (_ context.Context, done func(), err error) {
	size := r.ContentLength
	if size < 0 || size > mostBody { // -1 is unknown
		size = mostBody
	}
	if size <= largeBody {
		return ctx, func() {}, nil
	}
	wait := deadline(ctx, servicePatience)
	// Past that, reading that the connection was closed fails as well, and so ends the decision.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait * 6 / 5)) // a recorder of tests can't
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := b.turns.Acquire(waiting, size); err != nil {
		return ctx, nil, err
	}
	return claim.Impatient(ctx), func() { b.turns.Release(size) }, nil
}
