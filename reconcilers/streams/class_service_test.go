package streams

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestServiceReconciler has the ConfigMap of class public get TCP/6000, and looks at its Service then.
func TestServiceReconciler(t *testing.T) {
	held := accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 6000), accesstest.HolderOfPostgres, "u", 1, time.Time{})
	const told = "True Programmed the proxy has been told about every stream"
	for name, tc := range map[string]struct {
		claim    *v1beta1.EdgeClaim
		changed  bool // the class, since its ConfigMaps were written
		answer   error
		applied  []int32
		says     string
		failed   bool
		requeued bool
	}{
		"a stream holds the port":  {claim: held, applied: []int32{6000}, says: told},
		"nobody holds it any more": {says: told},
		"somebody else holds it":   {claim: accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 6000), claim.ServiceHolder("edge", "proxy"), "s", 1, time.Time{}), says: told},
		"the class has changed":    {claim: held, changed: true},
		"the Service has changed":  {claim: held, applied: []int32{6000}, answer: apierrors.NewConflict(corev1.Resource("services"), "proxy", nil), requeued: true},
		"no node port is left": {claim: held, applied: []int32{6000}, answer: apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full")), requeued: true,
			says: "False PortRefused 1 port(s) could not be programmed, the first is TCP/6000: Service edge/proxy: Internal error occurred: failed to allocate a nodePort: range is full"},
		"the API server is away": {claim: held, applied: []int32{6000}, answer: apierrors.NewServiceUnavailable("away"), failed: true,
			says: "False Pending 1 port(s) have yet to be opened: applying Service edge/proxy: away"},
	} {
		t.Run(name, func(t *testing.T) {
			class, _, svc := accesstest.Public()
			svc.Spec.Ports = svc.Spec.Ports[:1]
			objects := []client.Object{class, svc}
			if tc.claim != nil {
				objects = append(objects, tc.claim.DeepCopy())
			}
			var applied []int32
			b := baseWith(t, accesstest.Cluster(t, objects...).WithStatusSubresource(class).WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(_ context.Context, _ client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
					for _, p := range obj.(*corev1ac.ServiceApplyConfiguration).Spec.Ports {
						applied = append(applied, *p.Port)
					}
					return tc.answer
				},
			}).Build())
			b.Events = events.NewFakeRecorder(10)
			r := newServiceReconciler(b, newClassReports())
			r.reports.ofConfigMaps(class, classReport{})
			r.entered.set(class, map[stream.PortKey]bool{tcpPorts(6000)[0]: true})
			if tc.changed {
				class = changedClass(t, b)
			}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(class)})
			if (err != nil) != tc.failed || (result.RequeueAfter > 0) != tc.requeued {
				t.Errorf("again after %s, %v", result.RequeueAfter, err)
			}
			if diff := cmp.Diff(tc.applied, applied); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
			if err := b.Live.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
				t.Fatal(err)
			}
			says := ""
			if c := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionProgrammed); c != nil {
				says = strings.Join([]string{string(c.Status), c.Reason, c.Message}, " ")
			}
			if says != tc.says {
				t.Errorf("the class says %q, want %q", says, tc.says)
			}
		})
	}
}

// changedClass gives the stored class public another generation.
func changedClass(t *testing.T, b base) *v1beta1.StreamIngressClass {
	t.Helper()
	class := &v1beta1.StreamIngressClass{}
	if err := b.Live.Get(t.Context(), client.ObjectKey{Name: "public"}, class); err != nil {
		t.Fatal(err)
	}
	class.Generation++
	if err := b.Writer.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	return class
}

// TestClassReports puts together what is known of the two halves of a class.
func TestClassReports(t *testing.T) {
	class, _, _ := accesstest.Public()
	class.UID = "u"
	refused := func(port int32) (r classReport) {
		r.refuse(tcpPorts(port)[0], v1beta1.ReasonPortRefused, "no")
		return r
	}
	configMaps, service := refused(81), refused(80)
	configMaps.configMapError, service.serviceMissing = errors.New("immutable"), true
	r := newClassReports()
	if _, complete := r.ofConfigMaps(class, configMaps); complete {
		t.Error("complete without the Service")
	}
	whole, complete := r.ofService(class, service)
	if !complete || whole.configMapError == nil || !whole.serviceMissing || len(whole.refused) != 2 || whole.refused[0].Port != 80 {
		t.Errorf("got %+v, %v", whole, complete)
	}
	if whole, _ = r.ofConfigMaps(class, classReport{}); whole.configMapError != nil || len(whole.refused) != 1 {
		t.Errorf("got %+v", whole)
	}
	again := class.DeepCopy()
	again.UID = "v"
	if _, complete := r.ofConfigMaps(again, classReport{}); complete {
		t.Error("what was known of a class is taken for one of its name")
	}
	r.ofService(again, classReport{})
	r.forget(class.Name)
	if _, complete := r.ofService(again, classReport{}); complete {
		t.Error("it remembers what it has forgotten")
	}
}
