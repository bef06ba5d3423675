package loadbalancers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestPoolWordsFit reports on a pool what there is no room for.
func TestPoolWordsFit(t *testing.T) {
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
	accesstest.MustFit(t, pool, func(a access.Access, obj client.Object) error {
		verdict := addresspool.Verdict{Flaws: accesstest.Problem(v1beta1.ReasonInvalid, accesstest.LongText).ErrorList()}
		return (&poolReconciler{Access: a}).report(t.Context(), obj.(*v1beta1.AddressPool), poolStatus(obj.(*v1beta1.AddressPool), verdict, kube.PoolCount{}))
	})
}
