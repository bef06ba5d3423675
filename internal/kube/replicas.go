package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	// looks has one look at a time; what was found by the last one follows.
	looks         KeyMutex[struct{}]
	looked, known time.Time
	found         bool
	err           error
}

// run says whether any of them runs. Where that can't be told, one may, and the error is one by which a request is to be repeated: no
// webhook takes it for a reason to admit what it can't judge.
func (r *replicas) run(ctx context.Context) (bool, error) {
	if r == nil || r.namespace == "" {
		return false, nil
	}
	asked := r.clock.Now()
	unlock, err := r.looks.Lock(ctx, struct{}{})
	if err != nil {
		return true, untold(err)
	}
	defer unlock()
	if !r.looked.IsZero() && asked.Sub(r.looked) < replicasKept {
		return r.found, r.err
	}
	now := r.clock.Now()
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	look, cancel := context.WithTimeout(ctx, sharedReadTimeout)
	defer cancel()
	err = r.live.List(look, pods, client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: r.are},
		client.MatchingFieldsSelector{Selector: running})
	if err != nil && ctx.Err() != nil { // who asks has no time left, and nothing is known of the cluster
		return true, untold(err)
	}
	r.looked = now
	switch {
	case err == nil:
		r.known, r.found, r.err = now, len(pods.Items) > 0, nil
	case r.clock.Since(r.known) > replicasTrusted:
		log.FromContext(ctx).Error(err, "could not look for replicas of an older version")
		r.found, r.err = true, untold(err)
	}
	return r.found, r.err
}

func untold(err error) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("portcullis can't tell which versions of its replicas run, try again: %v", err), 1)
}
