package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// A deletion is refused for the sake of the Services, and must not hang for the sake of Portcullis.

// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-addresspool,mutating=false,failurePolicy=fail,sideEffects=None,groups=nginx-stream.jeffthecoder.xyz,resources=addresspools,verbs=create;update,versions=v1beta1,name=addresspool.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-addresspool,mutating=false,failurePolicy=ignore,sideEffects=None,groups=nginx-stream.jeffthecoder.xyz,resources=addresspools,verbs=delete,versions=v1beta1,name=addresspool-delete.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=addresspools,verbs=get;list;watch

// poolValidator decides on AddressPools.
type poolValidator struct {
	view *kube.View
}

var (
	_ admission.Validator[*v1beta1.AddressPool] = &poolValidator{}

	poolKind = schema.GroupKind{Group: v1beta1.GroupName, Kind: "AddressPool"}
)

// ValidateCreate refuses a pool that can't be read, or that has addresses of another one.
func (v *poolValidator) ValidateCreate(ctx context.Context, pool *v1beta1.AddressPool) (admission.Warnings, error) {
	return answer(ctx, poolKind, pool.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, nil, pool) })
}

// ValidateUpdate refuses the same in a change, and one that would take addresses from Services.
func (v *poolValidator) ValidateUpdate(ctx context.Context, before, pool *v1beta1.AddressPool) (admission.Warnings, error) {
	return answer(ctx, poolKind, pool.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, before, pool) })
}

// ValidateDelete refuses to take addresses from Services.
func (v *poolValidator) ValidateDelete(ctx context.Context, pool *v1beta1.AddressPool) (admission.Warnings, error) {
	return answer(ctx, poolKind, pool.Name, func(ctx context.Context) (d decision, err error) {
		if pool.DeletionTimestamp != nil {
			return d, nil
		}
		book, err := v.pools(ctx)
		if err != nil {
			return d, err
		}
		d.problems, err = v.inUse(ctx, book, book.Judge(pool), nil)
		return d, err
	})
}

// decide judges a new pool (before is nil) or the change of one.
func (v *poolValidator) decide(ctx context.Context, before, pool *v1beta1.AddressPool) (d decision, err error) {
	if before != nil && equality.Semantic.DeepEqual(before.Spec, pool.Spec) {
		return d, nil
	}
	book, err := v.pools(ctx)
	if err != nil {
		return d, err
	}
	after := book.Judge(pool)
	if before == nil {
		d.problems = loadbalancer.PoolProblems(after)
		d.warnings, err = v.besideProxies(ctx, after)
		return d, err
	}
	was := book.Judge(before)
	d.problems = loadbalancer.NewInAddressPool(was, after)
	lost, err := v.inUse(ctx, book, was, after.Pool)
	d.problems = append(d.problems, lost...)
	return d, err
}

// besideProxies warns of classes whose proxies take their ports on the same nodes as Services with addresses of a new pool.
func (v *poolValidator) besideProxies(ctx context.Context, pool addresspool.Verdict) (warnings admission.Warnings, err error) {
	if !pool.Accepted() {
		return nil, nil
	}
	classes, err := v.view.Classes(ctx)
	for i := range classes {
		if classes[i].OnNodes() {
			warnings = append(warnings, sharesNodes(&classes[i], []*addresspool.Pool{pool.Pool})...)
		}
	}
	return warnings, err
}

// sharesNodes warns that the proxy of a class without a Service is on the nodes whose addresses Services get from one of these
// pools: what it opens there of its own accord is not known unless the class reserves it.
func sharesNodes(class *v1beta1.StreamIngressClass, pools []*addresspool.Pool) admission.Warnings {
	for _, pool := range pools {
		if pool.SourceOrDefault() == v1beta1.SourceNodeIP && len(class.Spec.Reserved) == 0 {
			return admission.Warnings{fmt.Sprintf("class %s has no service, so its proxy is on the nodes, and reserves no ports: Services with "+
				"addresses of AddressPool %s may take from it what it opens there of its own accord, such as 80 and 443, unless the class "+
				"lists that under spec.reserved", class.Name, pool.Name)}
		}
	}
	return nil
}

// pools reads all pools as they are stored now: they change rarely, and one that was made a moment ago counts.
func (v *poolValidator) pools(ctx context.Context) (*addresspool.Book, error) {
	if err := ready(v.view); err != nil {
		return nil, err
	}
	return v.view.LoadBalancers.LivePools(ctx)
}

// checkedUsers is how many Services are looked for in the store before a pool is refused to go because of them: the
// Services of a manifest may have gone a moment ago. With more than that, some are sure to be there.
const checkedUsers = 20

// inUse refuses to take addresses from Services. A pool that was not accepted has given none.
func (v *poolValidator) inUse(
	ctx context.Context, book *addresspool.Book, before addresspool.Verdict, after *addresspool.Pool,
) (refusal.Problems, error) {
	if !before.Accepted() {
		return nil, nil
	}
	users, err := kube.Decide(ctx, v.view, func(f *kube.Facts) []loadbalancer.PoolUser {
		return loadbalancer.PoolUsers(f, before.Pool, after, book.Pools())
	})
	if err != nil || len(users) > checkedUsers {
		return loadbalancer.PoolInUse(users), err
	}
	var stored []loadbalancer.PoolUser
	for _, u := range users {
		there, err := v.isStored(ctx, u.Holder)
		if err != nil {
			return nil, err
		}
		if there {
			stored = append(stored, u)
		}
	}
	return loadbalancer.PoolInUse(stored), nil
}

// isStored says whether a Service, or a class, that has something of a pool is stored now.
func (v *poolValidator) isStored(ctx context.Context, user claim.Holder) (bool, error) {
	if user.IsClass() {
		class, err := v.view.Class(ctx, user.Name)
		return class != nil, err
	}
	return v.view.LoadBalancers.IsStored(ctx, user.Key())
}
