package streams

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestRetain asks what of the TCP ConfigMap of class public is kept, that has the entry of shop/postgres and that nobody had a claim
// on when the claims were read.
func TestRetain(t *testing.T) {
	kept := map[int32]stream.Entry{5432: {Namespace: "shop", Service: "db", Port: "5432"}}
	none := map[int32]stream.Entry{}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    map[int32]stream.Entry
		again   time.Duration
	}{
		"nobody asks for it":                           {nil, none, 0},
		"a stream names the port":                      {[]client.Object{accesstest.Life("u", 1)}, kept, pendingRetry},
		"a stream names the port, and leads elsewhere": {[]client.Object{accesstest.Life("u", 1, to("db.example.com", 5432))}, none, 0},
		"a stream had the port":                        {[]client.Object{accesstest.Life("u", 1, accesstest.Drawn, accesstest.ServedBy("public", 5432))}, kept, pendingRetry},
		"a stream says the same":                       {[]client.Object{accesstest.Life("u", 1, accesstest.Drawn)}, kept, pendingRetry},
		"a stream of another class says the same":      {[]client.Object{accesstest.Life("u", 1, accesstest.Drawn, accesstest.OfClass("internal"))}, none, 0},
		"a stream has claimed the port meanwhile": {[]client.Object{
			accesstest.Life("u", 1, accesstest.Drawn), accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, time.Time{}),
		}, kept, 0},
		"a stream has claimed another port": {[]client.Object{
			accesstest.Life("u", 1, accesstest.Drawn), accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 5433), accesstest.HolderOfPostgres, "u", 1, time.Time{}),
		}, none, 0},
	} {
		t.Run(name, func(t *testing.T) {
			class, cm, _ := accesstest.Public()
			class.Annotations = map[string]string{v1beta1.AnnotationDefaultClass: "true"}
			cm.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:5432":{}}}`),
			}}
			class.Spec.Service, class.Spec.AutoAssign = nil, &v1beta1.PortRange{From: 5000, To: 5999}
			b := baseWith(t, accesstest.Cluster(t, append(tc.objects, class, cm)...).WithReturnManagedFields().Build())
			s, err := b.gather(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			delete(s.claims, accesstest.PointOfPostgres)
			report, wanted := classReport{}, map[int32]stream.Entry{}
			if err := (&classReconciler{base: b}).retain(t.Context(), s, s.configMaps[0], wanted, &report); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, wanted); diff != "" || report.again() != tc.again {
				t.Errorf("it is looked at again after %v, want %v: %s", report.again(), tc.again, diff)
			}
		})
	}
}
