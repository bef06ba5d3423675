package stream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

func TestClass(t *testing.T) {
	selector := func(operator metav1.LabelSelectorOperator) v1beta1.PortAllowance {
		return v1beta1.PortAllowance{NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: operator}},
		}}
	}
	for name, tc := range map[string]struct {
		allow []v1beta1.PortAllowance
		want  []verdict
	}{
		"no rules":               {},
		"a rule for all":         {allow: []v1beta1.PortAllowance{{}}},
		"a rule with a selector": {allow: []v1beta1.PortAllowance{selector(metav1.LabelSelectorOpExists)}},
		"a selector that can't be read": {
			allow: []v1beta1.PortAllowance{{}, selector("Likes")},
			want: []verdict{{v1beta1.ReasonInvalid,
				`spec.allow[1].namespaceSelector: Invalid value: "": "Likes" is not a valid label selector operator`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := class("public")
			in.Spec.Allow = tc.allow
			if diff := cmp.Diff(tc.want, verdicts(CheckClass(in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClassTargets(t *testing.T) {
	ref := func(name string) *v1beta1.ObjectReference {
		return &v1beta1.ObjectReference{Namespace: "edge", Name: name}
	}
	shares := func(change func(*v1beta1.StreamIngressClassSpec)) *v1beta1.StreamIngressClass {
		return class("later", func(c *v1beta1.StreamIngressClass) { change(&c.Spec) })
	}
	clash := func(field, object string) verdict {
		return verdict{v1beta1.ReasonTargetConflict, field + `: Duplicate value: "` + object +
			`": held by StreamIngressClass public; two classes can't share it, their ports would collide`}
	}
	for name, tc := range map[string]struct {
		in     *v1beta1.StreamIngressClass
		yields func(*v1beta1.StreamIngressClass) bool
		want   []verdict
	}{
		"objects of its own": {in: class("later")},
		"itself":             {in: class("public")},
		"an object of another kind and the same name": {
			in: shares(func(s *v1beta1.StreamIngressClassSpec) { s.Service = ref("public-tcp") })},
		"an object of the same name in another namespace": {
			in: shares(func(s *v1beta1.StreamIngressClassSpec) {
				s.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "other", Name: "public-tcp"}
			})},
		"the same ConfigMap": {
			in:   shares(func(s *v1beta1.StreamIngressClassSpec) { s.TCPConfigMap = ref("public-tcp") }),
			want: []verdict{clash("spec.tcpConfigMap", "edge/public-tcp")}},
		"the same ConfigMap for the other protocol": {
			in:   shares(func(s *v1beta1.StreamIngressClassSpec) { s.TCPConfigMap = ref("public-udp") }),
			want: []verdict{clash("spec.tcpConfigMap", "edge/public-udp")}},
		"everything, in the order of the fields": {
			in: shares(func(s *v1beta1.StreamIngressClassSpec) { *s = class("public").Spec }),
			want: []verdict{
				clash("spec.tcpConfigMap", "edge/public-tcp"), clash("spec.udpConfigMap", "edge/public-udp"), clash("spec.service", "edge/public"),
			}},
		"the same Service, of a class that gives way": {
			in:     shares(func(s *v1beta1.StreamIngressClassSpec) { s.Service = ref("public") }),
			yields: func(other *v1beta1.StreamIngressClass) bool { return other.Name != "public" }},
		"the same Service, of a class that does not": {
			in:     shares(func(s *v1beta1.StreamIngressClassSpec) { s.Service = ref("public") }),
			yields: func(other *v1beta1.StreamIngressClass) bool { return other.Name == "public" },
			want:   []verdict{clash("spec.service", "edge/public")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public")}}
			decide(t, w, func(f Facts) refusal.Problems { return ClassTargets(f, tc.in, tc.yields) }, tc.want...)
		})
	}
}

func TestClassChange(t *testing.T) {
	type served = map[v1beta1.Protocol]int
	other := &v1beta1.ObjectReference{Namespace: "edge", Name: "other"}
	inUse := func(field, was, is, n string) verdict {
		return verdict{v1beta1.ReasonClassInUse, field + ": Forbidden: can't be changed from " + was + " to " + is + " while the class serves " + n +
			" stream(s): create another class and move them there, or delete them first"}
	}
	for name, tc := range map[string]struct {
		change func(*v1beta1.StreamIngressClassSpec)
		served served
		want   []verdict
	}{
		"nothing":                {func(*v1beta1.StreamIngressClassSpec) {}, served{v1beta1.TCP: 3, v1beta1.UDP: 2}, nil},
		"anything, serving none": {func(s *v1beta1.StreamIngressClassSpec) { *s = v1beta1.StreamIngressClassSpec{TCPConfigMap: other} }, nil, nil},
		"the policy": {func(s *v1beta1.StreamIngressClassSpec) {
			s.Reserved, s.Allow = []v1beta1.PortRange{{From: 1, To: 65535}}, []v1beta1.PortAllowance{{From: 1, To: 1}}
			s.AutoAssign, s.UpstreamNamespaces = &v1beta1.PortRange{From: 1}, v1beta1.UpstreamSame
		}, served{v1beta1.TCP: 3}, nil},
		"the ConfigMap of the protocol that serves none": {
			func(s *v1beta1.StreamIngressClassSpec) { s.UDPConfigMap = nil }, served{v1beta1.TCP: 3}, nil},
		"the TCP ConfigMap": {
			func(s *v1beta1.StreamIngressClassSpec) { s.TCPConfigMap = other }, served{v1beta1.TCP: 3},
			[]verdict{inUse("spec.tcpConfigMap", "edge/public-tcp", "edge/other", "3")}},
		"the UDP ConfigMap goes": {
			func(s *v1beta1.StreamIngressClassSpec) { s.UDPConfigMap = nil }, served{v1beta1.UDP: 2},
			[]verdict{inUse("spec.udpConfigMap", "edge/public-udp", "none", "2")}},
		"all of them": {
			func(s *v1beta1.StreamIngressClassSpec) { s.TCPConfigMap, s.UDPConfigMap, s.Service = other, nil, nil },
			served{v1beta1.TCP: 3, v1beta1.UDP: 2},
			[]verdict{
				inUse("spec.tcpConfigMap", "edge/public-tcp", "edge/other", "3"), inUse("spec.udpConfigMap", "edge/public-udp", "none", "2"),
				inUse("spec.service", "edge/public", "none", "5"),
			}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := class("public"), class("public")
			tc.change(&after.Spec)
			if diff := cmp.Diff(tc.want, verdicts(ClassChange(before, after, tc.served))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a Service is named that was none", func(t *testing.T) {
		before, after := class("public"), class("public")
		before.Spec.Service = nil
		want := []verdict{inUse("spec.service", "none", "edge/public", "1")}
		if diff := cmp.Diff(want, verdicts(ClassChange(before, after, served{v1beta1.UDP: 1}))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestClassConsent(t *testing.T) {
	const same, granted, all = v1beta1.UpstreamSame, v1beta1.UpstreamGranted, v1beta1.UpstreamAll
	inside, across := *sti(named("a", "inside"), leadingTo("", "db", "1")), *sti(named("a", "across"), leadingTo("data", "db", "1"))
	across2, consented := *sti(named("a", "across2"), leadingTo("data", "db", "1")), *sti(named("b", "consented"), leadingTo("data", "db", "1"))
	cut := func(was, is v1beta1.UpstreamNamespaces, n, first string) []verdict {
		return []verdict{{v1beta1.ReasonClassInUse, "spec.upstreamNamespaces: Forbidden: can't be changed from " + string(was) + " to " + string(is) +
			" while " + n + " stream(s) send their traffic to namespaces that have not consented, the first is " + first +
			": have ReferenceGrants created there, or delete the streams first"}}
	}
	for name, tc := range map[string]struct {
		was, is v1beta1.UpstreamNamespaces
		streams []v1beta1.StreamIngress
		want    []verdict
	}{
		"no change":                    {all, all, []v1beta1.StreamIngress{across}, nil},
		"wider":                        {same, all, []v1beta1.StreamIngress{across}, nil},
		"narrower, and no streams":     {all, same, nil, nil},
		"narrower, and all stay":       {all, same, []v1beta1.StreamIngress{inside}, nil},
		"narrower, and some are cut":   {all, granted, []v1beta1.StreamIngress{inside, across2, across, consented}, cut(all, granted, "2", "a/across")},
		"to Same, and all are cut":     {granted, same, []v1beta1.StreamIngress{consented, across}, cut(granted, same, "1", "b/consented")},
		"what was cut before may stay": {granted, same, []v1beta1.StreamIngress{across}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &facts{grants: map[string]bool{"b -> data/db": true}}
			decide(t, w, func(f Facts) refusal.Problems {
				return ClassConsent(f, class("public", upstreams(tc.was)), class("public", upstreams(tc.is)), tc.streams)
			}, tc.want...)
		})
	}
}

func TestClassDeniesOutsideUpstreams(t *testing.T) {
	inside, leaving := *sti(named("a", "inside"), leadingTo("", "db", "1")), *sti(named("a", "outside"), outside("db.example.com"))
	through := *sti(named("a", "outside"), leadingTo("", "sti-outside", "1"))
	denied := func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideDenied }
	refused := verdict{v1beta1.ReasonClassInUse, "spec.outsideUpstreams: Forbidden: can't be changed to Denied while 1 stream(s) " +
		"lead out of the cluster, the first is a/outside: delete them first"}
	for name, tc := range map[string]struct {
		before, after *v1beta1.StreamIngressClass
		streams       []v1beta1.StreamIngress
		want          []verdict
	}{
		"while one leads out":                    {class("public"), class("public", denied), []v1beta1.StreamIngress{inside, leaving}, []verdict{refused}},
		"while one leads to a Service that does": {class("public"), class("public", denied), []v1beta1.StreamIngress{inside, through}, []verdict{refused}},
		"while none leads out":                   {class("public"), class("public", denied), []v1beta1.StreamIngress{inside}, nil},
		"it was denied before":                   {class("public", denied), class("public", denied), []v1beta1.StreamIngress{leaving}, nil},
		"it is allowed again":                    {class("public", denied), class("public"), []v1beta1.StreamIngress{leaving}, nil},
		"namespaces are closed":                  {class("public"), class("public", upstreams(v1beta1.UpstreamSame)), []v1beta1.StreamIngress{leaving}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			decide(t, &facts{}, func(f Facts) refusal.Problems {
				return ClassConsent(f, tc.before, tc.after, tc.streams)
			}, tc.want...)
		})
	}
	decide(t, &facts{}, func(f Facts) refusal.Problems {
		return Consent(f, &leaving, class("public", denied))
	},
		verdict{v1beta1.ReasonRefNotPermitted, `spec.is_service: Invalid value: false: class "public" lets streams lead to Services only ` +
			"(outsideUpstreams: Denied): name a Service, or a class that allows it"})
	decide(t, &facts{}, func(f Facts) refusal.Problems { return Consent(f, &leaving, class("public")) })
	decide(t, &facts{}, func(f Facts) refusal.Problems {
		return Consent(f, &inside, class("public", denied))
	})
}

func TestErrorList(t *testing.T) {
	problems := CheckClass(class("public", func(c *v1beta1.StreamIngressClass) {
		bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Likes"}}}
		c.Spec.Allow = []v1beta1.PortAllowance{{NamespaceSelector: bad}, {NamespaceSelector: bad}}
	}))
	errs := problems.ErrorList()
	if len(errs) != 2 || errs[0] != problems[0].Err || errs[1] != problems[1].Err {
		t.Errorf("got %v", errs)
	}
	if errs := refusal.Problems(nil).ErrorList(); len(errs) != 0 {
		t.Errorf("no problems are %v", errs)
	}
}
