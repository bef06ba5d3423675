package streams

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestWantedEntries asks which entries should stand in the TCP ConfigMap of class public, for one stream.
func TestWantedEntries(t *testing.T) {
	mine, none := accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, time.Time{}), map[int32]stream.Entry{}
	open := func(port int32) map[int32]stream.Entry {
		return map[int32]stream.Entry{port: {Namespace: "shop", Service: "db", Port: "5432"}}
	}
	elsewhere := func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Namespace = "data" }
	for name, tc := range map[string]struct {
		objects []client.Object
		want    map[int32]stream.Entry
	}{
		"it holds its port":                   {[]client.Object{mine, accesstest.Life("u", 1)}, open(5432)},
		"it holds its port from another life": {[]client.Object{mine, accesstest.Life("v", 1)}, open(5432)},
		"it holds no port":                    {[]client.Object{accesstest.Life("u", 1)}, none},
		"it holds another port than it asks for": {
			[]client.Object{accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 1), accesstest.HolderOfPostgres, "u", 1, time.Time{}), accesstest.Life("u", 1)}, none},
		"it holds a port of another class":  {[]client.Object{accesstest.Claimed(claim.Stream("internal", v1beta1.TCP, 5432), accesstest.HolderOfPostgres, "u", 1, time.Time{}), accesstest.Life("u", 1)}, none},
		"somebody else holds its port":      {[]client.Object{accesstest.Claimed(accesstest.PointOfPostgres, claim.StreamHolder("shop", "other"), "o", 1, time.Time{}), accesstest.Life("u", 1)}, none},
		"what is foreign is not entered":    {[]client.Object{accesstest.Claimed(accesstest.PointOfPostgres, claim.Holder{Kind: "ConfigMap", Namespace: "shop", Name: "postgres"}, "o", 1, time.Time{}), accesstest.Life("u", 1)}, none},
		"it is not stored":                  {[]client.Object{mine}, none},
		"it has moved to another class":     {[]client.Object{mine, accesstest.Life("u", 1, accesstest.OfClass("internal"))}, none},
		"another class serves it":           {[]client.Object{mine, accesstest.Life("u", 1, accesstest.ServedBy("internal", 5432))}, none},
		"it was given the port":             {[]client.Object{mine, accesstest.Life("u", 1, accesstest.Drawn)}, open(5432)},
		"its port is UDP":                   {[]client.Object{accesstest.Claimed(claim.Stream("public", v1beta1.UDP, 5432), accesstest.HolderOfPostgres, "u", 1, time.Time{}), accesstest.Life("u", 1, isUDP)}, none},
		"its upstream has not consented":    {[]client.Object{mine, accesstest.Life("u", 1, elsewhere)}, none},
		"the number of its port is unknown": {[]client.Object{mine, accesstest.Life("u", 1, func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Port = intstr.FromString("sql") })}, none},
		"its outside upstream is its own": {[]client.Object{mine, accesstest.Life("u", 1, to("db.example.com", 5432)), &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "sti-postgres", OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: new(true)}}}}},
			map[int32]stream.Entry{5432: {Namespace: "shop", Service: "sti-postgres", Port: "5432"}}},
		"its outside upstream is somebody else's": {[]client.Object{mine, accesstest.Life("u", 1, to("db.example.com", 5432)),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sti-postgres"}}}, none},
	} {
		t.Run(name, func(t *testing.T) {
			class, cm, _ := accesstest.Public()
			class.Spec.Service, cm.Data = nil, nil
			b := baseOf(t, append(tc.objects, cm)...)
			s, err := b.gather(t.Context(), class)
			if err != nil || len(s.configMaps) != 1 {
				t.Fatal(s, err)
			}
			granted, _, err := b.grantedStreams(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.wantedEntries(t.Context(), s.configMaps[0], granted)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func isUDP(s *v1beta1.StreamIngress) { s.Spec.Protocol = v1beta1.UDP }

func TestLookAtWhatIsMissing(t *testing.T) {
	class, _, _ := accesstest.Public()
	s, err := baseOf(t).gather(t.Context(), class)
	if err != nil || len(s.configMaps) != 1 || s.configMaps[0].object != nil || s.service != nil || len(s.claims) != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
}
