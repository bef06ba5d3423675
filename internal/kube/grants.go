package kube

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"
)

const (
	// grantsAtOnce is how many ReferenceGrants are read at once. A tenant can make each as large as the API server takes, 1.5 MiB,
	// which takes several times that in memory.
	grantsAtOnce = 4
	// grantReads is how many such reads there are at a time.
	grantReads = 2
)

// grantLooks look for ReferenceGrants past the cache. Any tenant can have that done, as often as it likes and where there are as
// many grants as it likes. So a namespace looks once at a time, and all of them take turns, page by page: whoever needs one page
// waits for no more than one of each other namespace.
type grantLooks struct {
	askers *KeyMutex[string]
	reads  *semaphore.Weighted
}

func newGrantLooks() grantLooks {
	return grantLooks{askers: &KeyMutex[string]{}, reads: semaphore.NewWeighted(grantReads)}
}

// granted says whether a ReferenceGrant that is stored now lets StreamIngresses of a namespace point to a Service. It reads no
// further than to the first that does. An error is that of ctx, or of the API server.
func (l grantLooks) granted(ctx context.Context, live client.Reader, from string, service types.NamespacedName) (bool, error) {
	unlock, err := l.askers.Lock(ctx, from)
	if err != nil {
		return false, fmt.Errorf("waiting to read ReferenceGrants of namespace %s: %w", service.Namespace, err)
	}
	defer unlock()
	reader := limitedReader{live, l.reads}
	for page, err := range Pages[gatewayv1beta1.ReferenceGrantList](ctx, reader, grantsAtOnce, client.InNamespace(service.Namespace)) {
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err): // the kind isn't there, or not any longer: a namespace would be empty
			return false, nil
		case err != nil:
			return false, err
		}
		for i := range page.Items {
			covers := func(c Consent) bool { return c.covers(from, service) }
			if slices.ContainsFunc(consentsOf(&page.Items[i]), covers) {
				return true, nil
			}
		}
	}
	return false, nil
}
