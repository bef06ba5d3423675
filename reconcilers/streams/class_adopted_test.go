package streams

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

const before = "shop/before:80"

// TestSettleAdopted settles the entry of TCP/5432, which a stream has taken over when it was "shop/before:80".
func TestSettleAdopted(t *testing.T) {
	others := func(entry string) stream.Current { return stream.Current{Foreign: map[int32]string{5432: entry}} }
	nobody := stream.Current{}
	noted := v1beta1.AdoptedEntry{Entry: before, Granted: true}
	replaced := v1beta1.AdoptedEntry{Entry: before, Granted: true, Replaced: true}
	promised := v1beta1.AdoptedEntry{Entry: before}
	for name, tc := range map[string]struct {
		now          stream.Current
		entry        v1beta1.AdoptedEntry
		take         bool
		leaves, left bool
		want         string
	}{
		"the stream says the same":                          {now: others(before), entry: noted, want: "nothing"},
		"the stream leads elsewhere":                        {now: nobody, entry: replaced, want: "nothing"},
		"it was removed at its source":                      {now: nobody, entry: noted, want: "gone"},
		"the stream leaves":                                 {now: others(before), entry: noted, leaves: true, want: "nothing"},
		"the stream has left":                               {now: others(before), entry: noted, leaves: true, left: true, want: "forget"},
		"what was replaced leaves":                          {now: nobody, entry: replaced, leaves: true, want: "back"},
		"what was replaced has left":                        {now: nobody, entry: replaced, leaves: true, left: true, want: "back"},
		"what was replaced is back":                         {now: others(before), entry: replaced, leaves: true, want: "returned"},
		"what was replaced is back, and the stream left":    {now: others(before), entry: replaced, leaves: true, left: true, want: "forget"},
		"a newer value stands there":                        {now: others("shop/newer:80"), entry: replaced, leaves: true, left: true, want: "forget"},
		"a newer value stands there, and the stream leaves": {now: others("shop/newer:80"), entry: replaced, leaves: true, want: "returned"},
		"it was removed while the stream leaves":            {now: nobody, entry: noted, leaves: true, want: "nothing"},
		"it was removed before the stream left":             {now: nobody, entry: noted, leaves: true, left: true, want: "forget"},
		"it was removed while a stream is only promised it": {now: nobody, entry: promised, leaves: true, want: "nothing"},
		"taken, the stream leaves":                          {now: others(before), entry: noted, take: true, leaves: true, want: "nothing"},
		"taken, the stream has left":                        {now: others(before), entry: noted, take: true, leaves: true, left: true, want: "out"},
		"taken, and replaced":                               {now: nobody, entry: replaced, take: true, leaves: true, left: true, want: "forget"},
		"taken, a newer value stands there":                 {now: others("shop/newer:80"), entry: noted, take: true, leaves: true, left: true, want: "forget"},
	} {
		t.Run(name, func(t *testing.T) {
			a := adoption{AdoptedEntry: &tc.entry, port: tcpPorts(5432)[0], leaves: tc.leaves, left: tc.left}
			s := settleAdopted(tc.now, tc.take, []adoption{a})
			got := "nothing"
			for what, adoptions := range map[string][]adoption{"back": s.back, "out": s.out, "forget": s.forget, "gone": s.gone, "returned": s.returned} {
				if len(adoptions) > 0 {
					got = what
				}
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// adopted is a claim of shop/postgres on a TCP port of class public, with which it has taken over an entry of edge/tcp-services
// and replaced it.
func adopted(port int32, change ...func(*v1beta1.AdoptedEntry)) *v1beta1.EdgeClaim {
	c := accesstest.Claimed(claim.Stream("public", v1beta1.TCP, port), accesstest.HolderOfPostgres, "u", 1, time.Time{})
	c.Spec.Adopted = &v1beta1.AdoptedEntry{Holder: claim.ConfigMapHolder("edge", "tcp-services").Spec(""), Entry: before, Granted: true, Replaced: true}
	for _, f := range change {
		f(c.Spec.Adopted)
	}
	return c
}

// writtenBy is edge/tcp-services with an entry for each port that Portcullis has applied, and those that others have written.
func writtenBy(ours, others map[int32]string) *corev1.ConfigMap {
	_, cm, _ := accesstest.Public()
	cm.UID, cm.Data, cm.ManagedFields = "map", map[string]string{}, nil
	manage := func(manager string, operation metav1.ManagedFieldsOperationType, entries map[int32]string) {
		var fields []string
		for port, entry := range entries {
			cm.Data[stream.Key(port)] = entry
			fields = append(fields, strconv.Quote("f:"+stream.Key(port))+`:{}`)
		}
		cm.ManagedFields = append(cm.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", Time: &metav1.Time{Time: accesstest.Noon},
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{` + strings.Join(fields, ",") + `}}`),
		})
	}
	manage(stream.FieldManager, metav1.ManagedFieldsOperationApply, ours)
	manage("kubectl", metav1.ManagedFieldsOperationUpdate, others)
	return cm
}

// giving is a class reconciler in a cluster with these objects. It returns the data of what is applied.
func giving(t *testing.T, refused error, objects ...client.Object) (r *classReconciler, applied *[]map[string]string) {
	t.Helper()
	applied = &[]map[string]string{}
	c := accesstest.Cluster(t, objects...).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, what runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			text, err := json.Marshal(what)
			cm := corev1.ConfigMap{}
			if err == nil {
				err = json.Unmarshal(text, &cm)
			}
			if err != nil {
				t.Error(err)
			}
			*applied = append(*applied, cm.Data)
			return refused
		},
	}).Build()
	r = &classReconciler{base: baseWith(t, c)}
	r.leftovers = newLeftovers(clocktesting.NewFakePassiveClock(accesstest.Noon), 0)
	return r, applied
}

// claimsIn are the claims on the ports of class public.
func claimsIn(t *testing.T, r *classReconciler) map[claim.Coordinate]*v1beta1.EdgeClaim {
	t.Helper()
	claims, err := r.View.Claims.OfClass(t.Context(), "public")
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestGiveBackWritesOnce has a stream leave that had replaced two entries, while another class may write to the ConfigMap.
func TestGiveBackWritesOnce(t *testing.T) {
	class, _, _ := accesstest.Public()
	elsewhere, other := class.DeepCopy(), class.DeepCopy()
	elsewhere.Spec.TCPConfigMap.Name, other.Name = "other", "other"
	back := map[string]string{"5432": before, "5433": before}
	for name, tc := range map[string]struct {
		class *v1beta1.StreamIngressClass
		also  *v1beta1.StreamIngressClass
		asked bool
		want  []map[string]string
	}{
		"its class stays":                              {class: class, want: []map[string]string{back}},
		"its class is deleted":                         {want: []map[string]string{back}},
		"its class has moved":                          {class: elsewhere, want: []map[string]string{back}},
		"its class has moved, and the stream stays":    {class: elsewhere, asked: true, want: []map[string]string{back}},
		"its class is deleted, another has its place":  {also: other},
		"its class has moved, another has its place":   {class: elsewhere, also: other},
		"it does not leave":                            {class: class, asked: true},
		"its class stays, another wants to have there": {class: class, also: other, want: []map[string]string{back}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{adopted(5432), adopted(5433), writtenBy(map[int32]string{5432: "shop/db:1", 5433: "shop/db:1"}, nil)}
			for _, c := range []*v1beta1.StreamIngressClass{tc.class, tc.also} {
				if c != nil {
					objects = append(objects, c.DeepCopy())
				}
			}
			r, applied := giving(t, nil, objects...)
			asked := map[claim.Coordinate]bool{accesstest.PointOfPostgres: tc.asked, claim.Stream("public", v1beta1.TCP, 5433): tc.asked}
			err := r.giveBack(t.Context(), tc.class, claimsIn(t, r), asked, &classReport{})
			if wrote := len(tc.want) > 0; wrote != apierrors.IsConflict(err) || !wrote && err != nil {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(tc.want, *applied, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// counted counts what is read live.
type counted struct {
	client.Reader
	gets *int
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	*c.gets++
	return c.Reader.Get(ctx, key, obj, opts...)
}

// TestEntriesRemovedAtTheirSource has somebody remove entries that streams say the same as: the ports are the streams' for good,
// and the ConfigMap is read once for all of them.
func TestEntriesRemovedAtTheirSource(t *testing.T) {
	class, _, _ := accesstest.Public()
	same := func(e *v1beta1.AdoptedEntry) { e.Replaced = false }
	ours, asked, gets := map[int32]string{}, map[claim.Coordinate]bool{}, 0
	objects := []client.Object{class}
	for port := int32(5432); port < 5440; port++ {
		ours[port], asked[claim.Stream("public", v1beta1.TCP, port)] = before, true
		objects = append(objects, adopted(port, same))
	}
	r, _ := giving(t, nil, append(objects, writtenBy(ours, nil))...)
	r.Live = counted{r.Live, &gets}
	if err := r.giveBack(t.Context(), class, claimsIn(t, r), asked, &classReport{}); err != nil || gets != 1 {
		t.Errorf("the ConfigMap is read %d times: %v", gets, err)
	}
	for at, c := range claimsIn(t, r) {
		if c.Spec.Adopted != nil {
			t.Errorf("%s remembers %+v", at, c.Spec.Adopted)
		}
	}
}

// TestGiveBackLeavesARefusalAlone has the API server refuse to write an entry back: the class says so, and goes on.
func TestGiveBackLeavesARefusalAlone(t *testing.T) {
	class, _, _ := accesstest.Public()
	full := apierrors.NewRequestEntityTooLargeError("limit is 1048576")
	r, applied := giving(t, full, class, adopted(5432), writtenBy(map[int32]string{5432: "shop/db:1"}, nil))
	var report classReport
	if err := r.giveBack(t.Context(), class, claimsIn(t, r), nil, &report); err != nil {
		t.Errorf("the class stops: %v", err)
	}
	if len(*applied) != 1 || len(report.refused) != 1 || report.again() != watch.RefusedRetry {
		t.Fatalf("applied %v, refused %v, again after %s", *applied, report.refused, report.again())
	}
	if got := report.refused[0]; got.Port != 5432 || got.Reason != v1beta1.ReasonConfigMapRefused || !strings.Contains(got.Message, full.Error()) {
		t.Errorf("it is told as %+v", got)
	}
}

// TestGiveBackOfAnOldClaim has the cache show a claim that has changed: it is left to the next pass.
func TestGiveBackOfAnOldClaim(t *testing.T) {
	class, _, _ := accesstest.Public()
	r, _ := giving(t, nil, class, adopted(5432), writtenBy(nil, map[int32]string{5432: before}))
	claims := claimsIn(t, r)
	if err := r.Ledger.Identify(t.Context(), claims[accesstest.PointOfPostgres], "later"); err != nil {
		t.Fatal(err)
	}
	if err := r.giveBack(t.Context(), class, claims, nil, &classReport{}); err != nil {
		t.Errorf("the class stops: %v", err)
	}
	if got := claimsIn(t, r)[accesstest.PointOfPostgres].Spec.Adopted; got == nil || !got.Replaced {
		t.Errorf("it remembers %+v", got)
	}
}

// TestKeptOnceIsKeptToTheEnd writes an entry back too early after the installation. The grace ends in the same pass, before
// what stands in its place would be taken away.
func TestKeptOnceIsKeptToTheEnd(t *testing.T) {
	class, _, _ := accesstest.Public()
	r, applied := giving(t, nil, class, adopted(5432), writtenBy(map[int32]string{5432: "shop/db:1"}, nil))
	clock := clocktesting.NewFakePassiveClock(accesstest.Noon.Add(time.Hour))
	r.leftovers = newLeftovers(clock, time.Minute)
	r.leftovers.known[leftover{"map", time.Time{}}] = true
	var report classReport
	if err := r.giveBack(t.Context(), class, claimsIn(t, r), nil, &report); err != nil || len(*applied) > 0 {
		t.Fatalf("applied %v, %v", *applied, err)
	}
	clock.SetTime(clock.Now().Add(time.Minute))
	s, err := r.gather(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.planEntries(t.Context(), s.configMaps[0], nil, &report)
	if err != nil || plan.Data["5432"] != "shop/db:1" || report.again() != time.Minute {
		t.Errorf("it writes %v, again after %s: %v", plan.Data, report.again(), err)
	}
}

// TestNoteAdopted has a stream be granted a port with which it took over an entry: before anything is written, the claim says
// so.
func TestNoteAdopted(t *testing.T) {
	promised := func(e *v1beta1.AdoptedEntry) { e.Granted, e.Replaced = false, false }
	noted := func(e *v1beta1.AdoptedEntry) { e.Replaced = false }
	stands := map[int32]string{5432: before}
	same, other := stream.Entry{Namespace: "shop", Service: "before", Port: "80"}, stream.Entry{Namespace: "shop", Service: "db", Port: "1"}
	for name, tc := range map[string]struct {
		c            *v1beta1.EdgeClaim
		ours, others map[int32]string
		wants        stream.Entry
		noted        v1beta1.AdoptedEntry
		writes       string
	}{
		"it says the same":              {adopted(5432, promised), nil, stands, same, v1beta1.AdoptedEntry{Granted: true}, ""},
		"it says the same, as is noted": {adopted(5432, noted), nil, stands, same, v1beta1.AdoptedEntry{Granted: true}, before},
		"it leads elsewhere at once":    {adopted(5432, promised), nil, stands, other, v1beta1.AdoptedEntry{Granted: true, Replaced: true}, ""},
		"it leads elsewhere":            {adopted(5432, noted), stands, stands, other, v1beta1.AdoptedEntry{Granted: true, Replaced: true}, before},
		"it leads elsewhere, as noted":  {adopted(5432), stands, nil, other, v1beta1.AdoptedEntry{Granted: true, Replaced: true}, other.String()},
		"it leads back":                 {adopted(5432), stands, nil, same, v1beta1.AdoptedEntry{Granted: true, Replaced: true}, before},
	} {
		t.Run(name, func(t *testing.T) {
			class, _, _ := accesstest.Public()
			class.Spec.Service = nil
			r, _ := giving(t, nil, class, tc.c, writtenBy(tc.ours, tc.others))
			s, err := r.gather(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			wanted := map[int32]stream.Entry{5432: tc.wants}
			if err := r.noteAdopted(t.Context(), s, s.configMaps[0], wanted, &classReport{}); err != nil {
				t.Fatal(err)
			}
			got := *claimsIn(t, r)[accesstest.PointOfPostgres].Spec.Adopted
			if got.Granted != tc.noted.Granted || got.Replaced != tc.noted.Replaced {
				t.Errorf("the claim says %+v", got)
			}
			writes := ""
			for entry := range maps.Values(wanted) {
				writes = entry.String()
			}
			if writes != tc.writes {
				t.Errorf("it writes %q, want %q", writes, tc.writes)
			}
		})
	}
}
