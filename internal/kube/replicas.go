package kube

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Pods of Portcullis bear the label of the ledger that they keep, since version 2. classless selects those that claim paths for all
// IngressClasses at once, and withoutHeirs those that know of no heirs of claims, or not of all of them: those of version 3 know of heirs
// of streams alone, those of version 4 of none of namespaces, and would forget what was promised to one, or release it.
var (
	classless    = selectReplicas("!" + v1beta1.LabelLedger)
	withoutHeirs = selectReplicas(v1beta1.LabelLedger + " notin (5)")
)

func selectReplicas(requirement string) labels.Selector {
	selector, err := labels.Parse("app.kubernetes.io/name=portcullis,app.kubernetes.io/component=manager," + requirement)
	if err != nil {
		panic(err) // it is a constant
	}
	return selector
}

// running selects the Pods that have not ended.
var running = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// replicasKept is how long an answer is kept: less than it takes a Pod that comes to serve admission.
const replicasKept = time.Second

// replicasTrusted is how long it is kept while nobody can tell.
const replicasTrusted = 10 * time.Second

// replicas knows whether replicas of some versions of Portcullis run.
type replicas struct {
	are       labels.Selector
	live      client.Reader
	namespace string
	clock     clock.PassiveClock

	mu            sync.Mutex
	looked, known time.Time
	found         bool
}

// run says whether any of them runs. Where that can't be told, one may.
func (r *replicas) run(ctx context.Context) bool {
	if r == nil || r.namespace == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looked.IsZero() && r.clock.Since(r.looked) < replicasKept {
		return r.found
	}
	now := r.clock.Now()
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := r.live.List(ctx, pods, client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: r.are},
		client.MatchingFieldsSelector{Selector: running})
	if ctx.Err() != nil {
		return true
	}
	r.looked = now
	switch {
	case err == nil:
		r.known, r.found = now, len(pods.Items) > 0
	case r.clock.Since(r.known) > replicasTrusted: // then it is as if there were some, which keeps nobody from what he has
		log.FromContext(ctx).Error(err, "could not look for replicas of an older version")
		r.found = true
	}
	return r.found
}
