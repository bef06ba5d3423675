package claims

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// claimRequest asks for a look at the claims of a holder, at those that it has, or those that it is to have.
type claimRequest struct {
	Holder claim.Holder
	// Gone is the UID of the holder, if that was seen to be deleted. A request without it loses nothing but time: the
	// claims then wait out their grace.
	Gone types.UID
	// At is the one point to look at, zero for all that the holder has.
	At claim.Coordinate
}

// requestsOf ask for a look at all claims of the holders of some.
func requestsOf(claims []*v1beta1.EdgeClaim) []claimRequest {
	holders := sets.New[claimRequest]()
	for _, c := range claims {
		holders.Insert(claimRequest{Holder: claim.HolderOf(c)})
	}
	return holders.UnsortedList()
}

type claimQueue = workqueue.TypedRateLimitingInterface[claimRequest]

// enqueueClaim asks for a look at the holder of a claim, or at that claim alone where its others are of no concern: a class has as many
// ports of an address that it shares, or of the nodes, as it has streams, and one look at all of them for each that comes or goes would
// have no end. Of what a Service has, any may depend on the rest. A namespace that comes to have any number of paths by its routes is
// looked at once for all that come at a time.
func enqueueClaim(q claimQueue, c *v1beta1.EdgeClaim) {
	req, at := claimRequest{Holder: claim.HolderOf(c)}, coordinateOf(c)
	switch {
	case at.IsRoutePath():
		q.AddAfter(req, mergeRoutes)
		return
	case req.Holder.IsClass() && at.Port() != 0:
		req.At = at
	}
	q.Add(req)
}

// onLost looks at an object as it was before it changed, in a way that counts, or was deleted.
func onLost(
	changed func(before, after client.Object) bool, look func(context.Context, client.Object, claimQueue),
) handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedFuncs[client.Object, claimRequest]{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			if changed(e.ObjectOld, e.ObjectNew) {
				look(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) { look(ctx, e.Object, q) },
	}
}

// turnOf is the namespace whose turn a request waits for.
func turnOf(req claimRequest) string { return req.Holder.Tenant() }

// logOfHolder makes the logger for requests of a controller, and, for nil, that of the controller itself.
func logOfHolder(mgr manager.Manager, controller string) func(*claimRequest) logr.Logger {
	logger := mgr.GetLogger().WithValues("controller", controller)
	return func(req *claimRequest) logr.Logger {
		if req == nil {
			return logger
		}
		return logger.WithValues("holder", req.Holder.String())
	}
}
