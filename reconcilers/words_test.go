package reconcilers

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// TestWordsFit reports what there is no room for: the API server would refuse the status as a whole, and the event.
func TestWordsFit(t *testing.T) {
	long := strings.Repeat("words ", 8000)
	problems := problem(v1beta1.ReasonInvalid, long)
	class, _, _ := public()
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
	for name, tc := range map[string]struct {
		of     client.Object
		report func(base, client.Object) error
	}{
		"a stream that is refused": {postgres(), func(b base, obj client.Object) error {
			return (&streamReconciler{base: b}).report(t.Context(), obj.(*v1beta1.StreamIngress), &verdict{refusal: problems, resolved: problems})
		}},
		"a class that writes to what is another's": {class, func(b base, obj client.Object) error {
			return (&classReconciler{base: b}).reportConflict(t.Context(), obj.(*v1beta1.StreamIngressClass), problems)
		}},
		"a class whose ConfigMap can't be written": {class, func(b base, obj client.Object) error {
			r := classReport{configMapError: errors.New(long)}
			r.refuse(tcpPorts(80)[0], v1beta1.ReasonPortRefused, long)
			return b.reportClass(t.Context(), obj.(*v1beta1.StreamIngressClass), r)
		}},
		"a pool that is refused": {pool, func(b base, obj client.Object) error {
			verdict := addresspool.Verdict{Flaws: problems.ErrorList()}
			return (&poolReconciler{base: b}).report(t.Context(), obj.(*v1beta1.AddressPool), poolStatus(obj.(*v1beta1.AddressPool), verdict, cluster.PoolCount{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(t, tc.of).WithStatusSubresource(tc.of).Build()
			b, told := baseWith(t, c), events.NewFakeRecorder(10)
			b.events = told
			obj := tc.of.DeepCopyObject().(client.Object)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			if err := tc.report(b, obj); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			if longest := longestMessage(obj); longest > report.MaxCondition || longest < report.MaxCondition-10 {
				t.Errorf("a message has %d bytes", longest)
			}
			for len(told.Events) > 0 {
				kindAndReason := len("Warning ConfigMapRefused ")
				if said := <-told.Events; len(said) > report.MaxNote+kindAndReason {
					t.Errorf("an event has %d bytes", len(said))
				}
			}
		})
	}
}

// longestMessage is how long the longest message of the conditions of an object is.
func longestMessage(obj client.Object) (longest int) {
	var conditions []metav1.Condition
	switch o := obj.(type) {
	case *v1beta1.StreamIngress:
		conditions = o.Status.Conditions
	case *v1beta1.StreamIngressClass:
		conditions = o.Status.Conditions
	case *v1beta1.AddressPool:
		conditions = o.Status.Conditions
	}
	for _, c := range conditions {
		longest = max(longest, len(c.Message))
	}
	return longest
}
