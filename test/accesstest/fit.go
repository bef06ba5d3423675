package accesstest

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// MustFit reports on an object, and fails unless a long text was cut to what there is room for: the API server would refuse the
// status as a whole, and the event.
func MustFit(t *testing.T, of client.Object, tell func(a access.Access, obj client.Object) error) {
	t.Helper()
	c := Cluster(t, of).WithStatusSubresource(of).Build()
	a, told := With(t, c), events.NewFakeRecorder(10)
	a.Events = told
	obj := of.DeepCopyObject().(client.Object)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	if err := tell(a, obj); err != nil {
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
}

// LongText has more words than fit.
var LongText = strings.Repeat("words ", 8000)

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
