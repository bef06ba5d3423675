package streams

import (
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// TestConditions has the three conditions of a stream, in full, for each verdict that there can be.
func TestConditions(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	open := accesstest.Condition("", yes, "Programmed", "TCP/5432 of class public is open")
	for name, tc := range map[string]struct {
		verdict verdict
		want    [3]metav1.Condition
	}{
		"all is well": {
			verdict{at: accesstest.PointOfPostgres, programmed: open},
			[3]metav1.Condition{
				accesstest.Condition("Accepted", yes, "Accepted", "TCP/5432 of class public is claimed"),
				accesstest.Condition("ResolvedRefs", yes, "ResolvedRefs", "the upstream exists"),
				accesstest.Condition("Programmed", yes, "Programmed", "TCP/5432 of class public is open"),
			},
		},
		"it is refused": {
			verdict{refusal: accesstest.Problem(v1beta1.ReasonPortConflict, "held by somebody")},
			[3]metav1.Condition{
				accesstest.Condition("Accepted", no, "PortConflict", "spec: Forbidden: held by somebody"),
				accesstest.Condition("ResolvedRefs", yes, "ResolvedRefs", "the upstream exists"),
				accesstest.Condition("Programmed", no, "NotAccepted", "the request is not accepted"),
			},
		},
		"it is refused for two reasons": {
			verdict{refusal: append(accesstest.Problem(v1beta1.ReasonPortReserved, "a"), accesstest.Problem(v1beta1.ReasonRefNotPermitted, "b")...)},
			[3]metav1.Condition{
				accesstest.Condition("Accepted", no, "PortReserved", "[spec: Forbidden: a, spec: Forbidden: b]"),
				accesstest.Condition("ResolvedRefs", yes, "ResolvedRefs", "the upstream exists"),
				accesstest.Condition("Programmed", no, "NotAccepted", "the request is not accepted"),
			},
		},
		"its upstream is away": {
			verdict{at: accesstest.PointOfPostgres, resolved: accesstest.Problem(v1beta1.ReasonBackendNotFound, "no Service"), programmed: open},
			[3]metav1.Condition{
				accesstest.Condition("Accepted", yes, "Accepted", "TCP/5432 of class public is claimed"),
				accesstest.Condition("ResolvedRefs", no, "BackendNotFound", "spec: Forbidden: no Service"),
				accesstest.Condition("Programmed", yes, "Programmed", "TCP/5432 of class public is open"),
			},
		},
		"it is refused, and its upstream is away": {
			verdict{refusal: accesstest.Problem(v1beta1.ReasonClassNotFound, "no class"), resolved: accesstest.Problem(v1beta1.ReasonBackendNotFound, "no Service")},
			[3]metav1.Condition{
				accesstest.Condition("Accepted", no, "ClassNotFound", "spec: Forbidden: no class"),
				accesstest.Condition("ResolvedRefs", no, "BackendNotFound", "spec: Forbidden: no Service"),
				accesstest.Condition("Programmed", no, "NotAccepted", "the request is not accepted"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want[:], tc.verdict.conditions()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerdictAgain(t *testing.T) {
	pending := accesstest.Condition("", metav1.ConditionFalse, v1beta1.ReasonPending, "")
	for name, tc := range map[string]struct {
		verdict verdict
		want    time.Duration
	}{
		"all is well":                       {verdict{at: accesstest.PointOfPostgres}, 0},
		"it is about to be programmed":      {verdict{at: accesstest.PointOfPostgres, programmed: pending}, pendingRetry},
		"its upstream is away":              {verdict{at: accesstest.PointOfPostgres, resolved: accesstest.Problem(v1beta1.ReasonBackendNotFound, "")}, 0},
		"its outside upstream was refused":  {verdict{at: accesstest.PointOfPostgres, resolved: accesstest.Problem(v1beta1.ReasonBackendRefused, ""), programmed: pending}, watch.RefusedRetry},
		"the name of its upstream is taken": {verdict{at: accesstest.PointOfPostgres, resolved: accesstest.Problem(v1beta1.ReasonBackendNameTaken, "")}, watch.RefusedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.verdict.retry(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIsNews(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, tc := range map[string]struct {
		before *metav1.Condition
		now    metav1.Condition
		want   bool
	}{
		"a new stream is accepted":       {nil, accesstest.Condition("Accepted", yes, "Accepted", ""), true},
		"a new stream is refused":        {nil, accesstest.Condition("Accepted", no, "PortConflict", ""), true},
		"a new stream resolves":          {nil, accesstest.Condition("ResolvedRefs", yes, "ResolvedRefs", ""), false},
		"a new stream does not resolve":  {nil, accesstest.Condition("ResolvedRefs", no, "BackendNotFound", ""), true},
		"a new stream is pending":        {nil, accesstest.Condition("Programmed", no, "Pending", ""), false},
		"a refused one is not accepted":  {nil, accesstest.Condition("Programmed", no, "NotAccepted", ""), false},
		"a new stream is open":           {nil, accesstest.Condition("Programmed", yes, "Programmed", ""), true},
		"it is open now":                 {&metav1.Condition{Status: no, Reason: "Pending"}, accesstest.Condition("Programmed", yes, "Programmed", ""), true},
		"it is open still":               {&metav1.Condition{Status: yes, Reason: "Programmed"}, accesstest.Condition("Programmed", yes, "Programmed", ""), false},
		"it is closed for other reasons": {&metav1.Condition{Status: no, Reason: "Pending"}, accesstest.Condition("Programmed", no, "PortRefused", ""), true},
		"only the words differ":          {&metav1.Condition{Status: no, Reason: "PortRefused", Message: "a"}, accesstest.Condition("Programmed", no, "PortRefused", "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isNews(tc.before, tc.now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestNews tells of what is new at once, and of no more than it takes.
func TestNews(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	accepted := accesstest.Condition("Accepted", yes, "Accepted", "claimed")
	resolved := accesstest.Condition("ResolvedRefs", yes, "ResolvedRefs", "")
	unresolved := accesstest.Condition("ResolvedRefs", no, "BackendNotFound", "")
	pending := accesstest.Condition("Programmed", no, "Pending", "")
	open := accesstest.Condition("Programmed", yes, "Programmed", "open")
	refused := accesstest.Condition("Programmed", no, "PortRefused", "")
	for name, tc := range map[string]struct{ before, now, want []metav1.Condition }{
		"claimed and open at once":         {nil, []metav1.Condition{accepted, resolved, open}, []metav1.Condition{open}},
		"and its upstream is not there":    {nil, []metav1.Condition{accepted, unresolved, open}, []metav1.Condition{unresolved, open}},
		"claimed first":                    {nil, []metav1.Condition{accepted, resolved, pending}, []metav1.Condition{accepted}},
		"open later":                       {[]metav1.Condition{accepted, resolved, pending}, []metav1.Condition{accepted, resolved, open}, []metav1.Condition{open}},
		"claimed, and refused where it is": {nil, []metav1.Condition{accepted, resolved, refused}, []metav1.Condition{accepted, refused}},
		"nothing":                          {[]metav1.Condition{accepted, resolved, open}, []metav1.Condition{accepted, resolved, open}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, news(tc.before, tc.now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// public is a class whose objects are there, and say that shop/postgres is open at TCP/5432.

// TestProgrammed finds out whether a stream that holds its port is open, in each state in which its proxy can be.
func TestProgrammed(t *testing.T) {
	refused := func(c *v1beta1.StreamIngressClass) {
		c.Status.Refused = []v1beta1.RefusedPort{{Protocol: v1beta1.TCP, Port: 5432, Reason: v1beta1.ReasonPortRefused, Message: "no node ports"}}
	}
	no := func(reason, message string) metav1.Condition {
		return accesstest.Condition("", metav1.ConditionFalse, reason, message)
	}
	yes := accesstest.Condition("", metav1.ConditionTrue, "Programmed", "TCP/5432 of class public is open")
	addresses := []string{"192.0.2.1", "lb.example.com"}
	for name, tc := range map[string]struct {
		change    func(*v1beta1.StreamIngressClass, *corev1.ConfigMap, *corev1.Service)
		si        *v1beta1.StreamIngress
		resolved  refusal.Problems
		want      metav1.Condition
		addresses []string
	}{
		"it is open": {want: yes, addresses: addresses},
		"it is open, though its upstream is away": {
			resolved: accesstest.Problem(v1beta1.ReasonBackendNotFound, ""), want: yes, addresses: addresses},
		"there is no Service in front of the proxy": {
			change: func(c *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, _ *corev1.Service) { c.Spec.Service = nil }, want: yes},
		"it has no address yet": {
			change: func(_ *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, svc *corev1.Service) {
				svc.Status = corev1.ServiceStatus{}
			}, want: yes},
		"the Service of the class is missing": {
			change: func(c *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, _ *corev1.Service) {
				c.Spec.Service.Name = "nosuch"
			},
			want: no("ServiceNotFound", "the entry is written, but there is no Service edge/nosuch to open the port on")},
		"the entry is not written yet": {
			change: func(_ *v1beta1.StreamIngressClass, cm *corev1.ConfigMap, _ *corev1.Service) { cm.Data = nil },
			want:   no("Pending", "the proxy of class public is about to be told")},
		"another entry stands there": {
			change: func(_ *v1beta1.StreamIngressClass, cm *corev1.ConfigMap, _ *corev1.Service) {
				cm.Data["5432"] = "shop/other:1"
			},
			want: no("Pending", "the proxy of class public is about to be told")},
		"the entry was refused": {
			change: func(c *v1beta1.StreamIngressClass, cm *corev1.ConfigMap, _ *corev1.Service) {
				cm.Data = nil
				refused(c)
			},
			want: no("PortRefused", "no node ports")},
		"the port is not open yet": {
			change: func(_ *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, svc *corev1.Service) {
				svc.Spec.Ports = svc.Spec.Ports[:1]
			},
			want: no("Pending", "the proxy of class public is about to be told")},
		"only the UDP port of that number is open": {
			change: func(_ *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, svc *corev1.Service) {
				svc.Spec.Ports[1].Protocol = corev1.ProtocolUDP
			},
			want: no("Pending", "the proxy of class public is about to be told")},
		"the port was refused": {
			change: func(c *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, svc *corev1.Service) {
				svc.Spec.Ports = svc.Spec.Ports[:1]
				refused(c)
			},
			want: no("PortRefused", "no node ports")},
		"the port was refused before, and is open now": {
			change: func(c *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, _ *corev1.Service) { refused(c) }, want: yes, addresses: addresses},
		"the class no longer serves the protocol": {
			change: func(c *v1beta1.StreamIngressClass, _ *corev1.ConfigMap, _ *corev1.Service) { c.Spec.TCPConfigMap = nil },
			want:   no("Pending", "class public has no ConfigMap for TCP")},
		"its upstream may not be used": {
			resolved: accesstest.Problem(v1beta1.ReasonRefNotPermitted, ""),
			want:     no("UnresolvedRefs", "the upstream may not be used, so nothing is programmed; the port stays claimed")},
		"somebody else has the name of its upstream": {
			resolved: accesstest.Problem(v1beta1.ReasonBackendNameTaken, ""),
			want:     no("UnresolvedRefs", "the upstream may not be used, so nothing is programmed; the port stays claimed")},
		"the number of its port is not known": {
			change: func(_ *v1beta1.StreamIngressClass, cm *corev1.ConfigMap, _ *corev1.Service) { cm.Data = nil },
			si:     accesstest.Postgres(func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Port = intstr.FromString("sql") }),
			want:   no("UnresolvedRefs", "the number of the upstream's port is not known, so nothing is programmed; the port stays claimed")},
		"the number of its port is not known any more": {
			si: accesstest.Postgres(func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Port = intstr.FromString("sql") }), want: yes, addresses: addresses},
	} {
		t.Run(name, func(t *testing.T) {
			class, cm, svc := accesstest.Public()
			if tc.change != nil {
				tc.change(class, cm, svc)
			}
			if tc.si == nil {
				tc.si = accesstest.Postgres()
			}
			r := &streamReconciler{base: baseOf(t, cm, svc)}
			v := &verdict{class: class, at: accesstest.PointOfPostgres, resolved: tc.resolved}
			got, err := r.programmed(t.Context(), tc.si, v)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
			if diff := cmp.Diff(tc.addresses, v.addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusalOf(t *testing.T) {
	port := tcpPorts(5432)[0]
	mine := v1beta1.RefusedPort{Protocol: v1beta1.TCP, Port: 5432, Reason: "PortRefused", Message: "mine"}
	below := func(last int32) v1beta1.StreamIngressClassStatus {
		status := v1beta1.StreamIngressClassStatus{}
		for n := range int32(maxRefused) {
			status.Refused = append(status.Refused, v1beta1.RefusedPort{Protocol: v1beta1.TCP, Port: last - maxRefused + 1 + n, Reason: "PortRefused", Message: "range is full"})
		}
		return status
	}
	almostFull := below(5000)
	almostFull.Refused = almostFull.Refused[1:]
	for name, tc := range map[string]struct {
		status v1beta1.StreamIngressClassStatus
		want   *v1beta1.RefusedPort
	}{
		"none":               {v1beta1.StreamIngressClassStatus{}, nil},
		"this one":           {v1beta1.StreamIngressClassStatus{Refused: []v1beta1.RefusedPort{{Protocol: v1beta1.TCP, Port: 1}, mine}}, &mine},
		"the other protocol": {v1beta1.StreamIngressClassStatus{Refused: []v1beta1.RefusedPort{{Protocol: v1beta1.UDP, Port: 5432}}}, nil},
		"more than a status lists": {below(5431), &v1beta1.RefusedPort{Protocol: v1beta1.TCP, Port: 5432, Reason: "PortRefused",
			Message: "class public has more than 128 ports that were refused, such as this one: range is full"}},
		"more than a status lists, and all of them higher": {below(6000), nil},
		"almost as many, and not it":                       {almostFull, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, refusalOf(&v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}, Status: tc.status}, port)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPatience compares how long a stream waits for its first report.
func TestPatience(t *testing.T) {
	pending := verdict{programmed: accesstest.Condition("", metav1.ConditionFalse, v1beta1.ReasonPending, "")}
	refused := pending
	refused.refusal = accesstest.Problem(v1beta1.ReasonPortConflict, "taken")
	for name, tc := range map[string]struct {
		verdict verdict
		known   bool
		open    bool
		age     time.Duration
		want    time.Duration
	}{
		"new, about to be programmed":  {pending, false, false, 300 * time.Millisecond, 2700 * time.Millisecond},
		"not so new":                   {pending, false, false, 3 * time.Second, 0},
		"by a clock that is ahead":     {pending, false, false, -time.Minute, 0},
		"reported before":              {pending, true, false, 0, 0},
		"its port is left open":        {pending, false, true, 0, 0},
		"refused":                      {refused, false, false, 0, 0},
		"open":                         {verdict{programmed: accesstest.Condition("", metav1.ConditionTrue, v1beta1.ReasonProgrammed, "")}, false, false, 0, 0},
		"not to be programmed for now": {verdict{programmed: accesstest.Condition("", metav1.ConditionFalse, v1beta1.ReasonPortRefused, "")}, false, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			si := &v1beta1.StreamIngress{}
			si.CreationTimestamp, si.Spec.ClassName = metav1.NewTime(accesstest.Noon), "public"
			if !tc.open {
				si.Spec.Listen = new(int32(5432))
			}
			if tc.known {
				si.Status.Conditions = []metav1.Condition{accesstest.Condition(v1beta1.ConditionAccepted, metav1.ConditionTrue, "", "")}
			}
			if got := tc.verdict.patience(si, accesstest.Noon.Add(tc.age)); got != tc.want {
				t.Errorf("it waits %v, want %v", got, tc.want)
			}
		})
	}
}
