package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// claimStore keeps claims in the API server.
type claimStore struct {
	live    client.Reader
	writer  client.Writer
	written *claim.Written
	reads   *sharedReads[*v1beta1.EdgeClaim]
}

// NewLedger makes the ledger of a cluster. live reads from no cache; view is asked first, as its answers cost nothing. Without a
// view, nil, nothing is known but what is stored.
func NewLedger(live client.Reader, writer client.Writer, view *View, options claim.Ledger) *claim.Ledger {
	ledger := options
	if ledger.Clock == nil {
		ledger.Clock = clock.RealClock{}
	}
	reads := &sharedReads[*v1beta1.EdgeClaim]{}
	if view == nil {
		ledger.Store = claimStore{live: live, writer: writer, written: newWritten(ledger.Clock), reads: reads}
		return &ledger
	}
	ledger.Store = claimStore{live: live, writer: writer, written: view.written, reads: reads}
	ledger.Cached = func(name string) *v1beta1.EdgeClaim {
		c, err := view.Claim(context.Background(), name)
		if err != nil {
			return nil // the live store will tell
		}
		return c
	}
	ledger.Seen = view.Claims.Seen
	ledger.HandsOver = view.HandsOver
	ledger.Overlapping = view.Hosts.Overlapping
	ledger.ClassFor = view.Ingresses.ClassFor
	ledger.Promises = &claim.Promises{Stored: view.Claims.Stored, Clock: ledger.Clock, Grace: ledger.Grace, Most: claim.MostUnsettled}
	return &ledger
}

// Get implements claim.Store. Of a point that many want at a time, the claim is read once for all of them.
func (s claimStore) Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	c, err := s.reads.get(ctx, name, func(ctx context.Context) (*v1beta1.EdgeClaim, error) {
		c := &v1beta1.EdgeClaim{}
		return c, s.live.Get(ctx, types.NamespacedName{Name: name}, c)
	})
	return c.DeepCopy(), err
}

// List implements claim.Store. At a version, the API server answers from its own cache, and does not ask etcd.
func (s claimStore) List(ctx context.Context, scope, version string) ([]v1beta1.EdgeClaim, error) {
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
	if version != "" {
		options.Raw.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list := &v1beta1.EdgeClaimList{}
	err := s.live.List(ctx, list, options, client.MatchingFields{IndexScope: scope})
	return list.Items, err
}

// Create implements claim.Store.
func (s claimStore) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return s.written.Write(c, func() error { return s.writer.Create(ctx, c, client.FieldOwner(stream.FieldManager)) })
}

// Update implements claim.Store. The API server compares the resourceVersion.
func (s claimStore) Update(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return s.written.Write(c, func() error { return s.writer.Update(ctx, c, client.FieldOwner(stream.FieldManager)) })
}

// Delete implements claim.Store.
func (s claimStore) Delete(ctx context.Context, c *v1beta1.EdgeClaim) error {
	return s.written.Delete(c, func() error {
		return s.writer.Delete(ctx, c, client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion})
	})
}
