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

// olderReplicas selects the Pods of Portcullis of a version that claims paths for all IngressClasses at once: those of later ones bear the
// label of the ledger that they keep.
var olderReplicas = func() labels.Selector {
	selector, err := labels.Parse("app.kubernetes.io/name=portcullis,app.kubernetes.io/component=manager,!" + v1beta1.LabelLedger)
	if err != nil {
		panic(err) // it is a constant
	}
	return selector
}()

// running selects the Pods that have not ended.
var running = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// replicasKept is how long an answer is kept: less than it takes a Pod that comes to serve admission.
const replicasKept = time.Second

// replicasTrusted is how long it is kept while nobody can tell.
const replicasTrusted = 10 * time.Second

// replicas knows which versions of Portcullis run.
type replicas struct {
	live      client.Reader
	namespace string
	clock     clock.PassiveClock

	mu            sync.Mutex
	looked, known time.Time
	found         bool
}

// older says whether replicas of an older version run. Where that can't be told, they may.
func (r *replicas) older(ctx context.Context) bool {
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
	err := r.live.List(ctx, pods, client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: olderReplicas},
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
