package streams

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestStreamPredicates changes one thing about a stream after the other.
func TestStreamPredicates(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*v1beta1.StreamIngress)
		stream, verdict bool
	}{
		"nothing":                               {func(*v1beta1.StreamIngress) {}, false, false},
		"a label":                               {func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} }, false, false},
		"the spec":                              {func(s *v1beta1.StreamIngress) { s.Generation++ }, true, true},
		"another life":                          {func(s *v1beta1.StreamIngress) { s.UID = "other" }, true, true},
		"the class, which the spec names":       {func(s *v1beta1.StreamIngress) { s.Spec.ClassName, s.Status.ClassName = "x", "x" }, false, true},
		"the port, which the spec names":        {func(s *v1beta1.StreamIngress) { s.Spec.Listen, s.Status.Listen = new(int32(1)), 1 }, false, true},
		"the class, which the spec leaves open": {func(s *v1beta1.StreamIngress) { s.Spec.ClassName, s.Status.ClassName = "", "x" }, true, true},
		"the port, which the spec leaves open":  {func(s *v1beta1.StreamIngress) { s.Spec.Listen, s.Status.Listen = nil, 1 }, true, true},
		"the addresses":                         {func(s *v1beta1.StreamIngress) { s.Status.Addresses = []string{"192.0.2.1"} }, false, true},
		"a condition":                           {func(s *v1beta1.StreamIngress) { s.Status.Conditions = []metav1.Condition{{Type: "Accepted"}} }, false, true},
		"another door stays open":               {func(s *v1beta1.StreamIngress) { s.Status.Previous = &v1beta1.PreviousDoor{ClassName: "x"} }, true, true},
		"when it is closed":                     {func(s *v1beta1.StreamIngress) { s.Status.Previous = &v1beta1.PreviousDoor{CloseTime: &metav1.Time{}} }, false, true},
		"the version alone":                     {func(s *v1beta1.StreamIngress) { s.ResourceVersion = "2" }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := event.UpdateEvent{ObjectOld: accesstest.Postgres(), ObjectNew: accesstest.Postgres(tc.change)}
			if got := watch.StreamChanged().Update(e); got != tc.stream {
				t.Errorf("it concerns the proxy: %v", got)
			}
			if got := verdictChanged().Update(e); got != tc.verdict {
				t.Errorf("it concerns the verdict: %v", got)
			}
		})
	}
}

// TestServicePredicates changes one thing about a Service after the other: one that streams lead to, and one in front of a
// proxy.
func TestServicePredicates(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*corev1.Service)
		upstream, front bool
	}{
		"nothing":              {func(*corev1.Service) {}, false, false},
		"an alias by now":      {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, true, false},
		"another type":         {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, false, false},
		"a port":               {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true, true},
		"a port goes":          {func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] }, true, true},
		"who owns what":        {func(s *corev1.Service) { s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm"}} }, false, true},
		"the label of a class": {func(s *corev1.Service) { s.Labels = nil }, false, true},
		"another label":        {func(s *corev1.Service) { s.Labels["a"] = "b" }, false, false},
		"another life":         {func(s *corev1.Service) { s.UID = "other" }, true, true},
		"an annotation":        {func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }, false, false},
		"the status":           {func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, before := accesstest.Public()
			_, _, after := accesstest.Public()
			tc.change(after)
			e := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
			if got := upstreamChanged().Update(e); got != tc.upstream {
				t.Errorf("it concerns the streams to it: %v", got)
			}
			if got := frontChanged().Update(e); got != tc.front {
				t.Errorf("it concerns the proxy: %v", got)
			}
		})
	}
}

// TestBecomes lets through what a stream's upstream outside concerns: the streams that lead to its Service.
func TestBecomes(t *testing.T) {
	inside, out := accesstest.Postgres(), accesstest.Postgres(to("192.0.2.7", 5432))
	p := watch.Becomes(isOutside)
	for name, got := range map[string]bool{
		"one comes":        p.Create(event.CreateEvent{Object: out}),
		"one goes":         p.Delete(event.DeleteEvent{Object: out}),
		"one turns out":    p.Update(event.UpdateEvent{ObjectOld: inside, ObjectNew: out}),
		"one turns inside": p.Update(event.UpdateEvent{ObjectOld: out, ObjectNew: inside}),
	} {
		if !got {
			t.Errorf("%s, and nobody hears of it", name)
		}
	}
	for name, got := range map[string]bool{
		"one inside comes": p.Create(event.CreateEvent{Object: inside}),
		"one inside goes":  p.Delete(event.DeleteEvent{Object: inside}),
		"one stays out":    p.Update(event.UpdateEvent{ObjectOld: out, ObjectNew: accesstest.Postgres(to("192.0.2.8", 5432))}),
		"one stays inside": p.Update(event.UpdateEvent{ObjectOld: inside, ObjectNew: inside}),
	} {
		if got {
			t.Errorf("%s, and all hear of it", name)
		}
	}
}

// TestClassesServing finds who serves streams: each class once, and all where nothing says so yet.
func TestClassesServing(t *testing.T) {
	one, _, _ := accesstest.Public()
	another := one.DeepCopy()
	another.Name = "another"
	r := &classReconciler{base: baseOf(t, one, another)}
	for name, tc := range map[string]struct {
		streams []v1beta1.StreamIngress
		want    []string
	}{
		"none":                     {nil, nil},
		"of one class":             {[]v1beta1.StreamIngress{*accesstest.Postgres(accesstest.OfClass("public")), *accesstest.Postgres(accesstest.OfClass("public"))}, []string{"public"}},
		"of the class that serves": {[]v1beta1.StreamIngress{*accesstest.Postgres(accesstest.OfClass(""), accesstest.ServedBy("another", 1))}, []string{"another"}},
		"of no class yet":          {[]v1beta1.StreamIngress{*accesstest.Postgres(accesstest.OfClass("")), *accesstest.Postgres(accesstest.OfClass("public"))}, []string{"another", "public"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, req := range r.classesServing(t.Context(), tc.streams) {
				got = append(got, req.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiffering(t *testing.T) {
	service := func(ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}
	}
	tcp := func(n int32) corev1.ServicePort { return corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: n} }
	udp53 := corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 53}
	renamed := tcp(80)
	renamed.Name = "web"
	for name, tc := range map[string]struct {
		before, after *corev1.Service
		want          []string
	}{
		"the same":           {service(tcp(80)), service(tcp(80)), nil},
		"another order":      {service(tcp(80), tcp(443)), service(tcp(443), tcp(80)), nil},
		"another name":       {service(tcp(80)), service(renamed), nil},
		"one more":           {service(tcp(80)), service(tcp(80), tcp(81)), []string{"TCP/81"}},
		"one less":           {service(tcp(80), tcp(81)), service(tcp(80)), []string{"TCP/81"}},
		"one for another":    {service(tcp(80)), service(tcp(81)), []string{"TCP/80", "TCP/81"}},
		"one of a pair goes": {service(tcp(53), udp53), service(udp53), []string{"TCP/53"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, key := range slices.SortedFunc(maps.Keys(differing(tc.before, tc.after)), stream.ComparePorts) {
				got = append(got, key.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
