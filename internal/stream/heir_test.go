package stream

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handing has a stream say to whom it hands its port over.
func handing(to string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Annotations = map[string]string{v1beta1.AnnotationHandOverTo: to}
	}
}

// is has the status of a stream have a condition.
func is(kind, reason string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "told"})
	}
}

// TestHandedOver covers a stream that holds nothing, by what it says, what it had, and who has that now.
func TestHandedOver(t *testing.T) {
	accepted := is(v1beta1.ConditionAccepted, v1beta1.ReasonAccepted)
	other := claim.StreamHolder("blog", "third")
	for name, tc := range map[string]struct {
		stream *v1beta1.StreamIngress
		claims map[claim.Coordinate]*v1beta1.EdgeClaim
		want   bool
	}{
		"the heir has it": {sti(listen(6379), handing("team-b/redis"), accepted, servedBy("public", 6379)), claims(rival, tcp(6379)), true},
		"the heir has it, and the status says nothing": {sti(listen(6379), handing("team-b/redis")), claims(rival, tcp(6379)), true},
		"the heir has handed it on":                    {sti(listen(6379), handing("team-b/redis"), accepted, servedBy("public", 6379)), claims(other, tcp(6379)), true},
		"it was assigned, and the heir has it":         {sti(handing("team-b/redis"), accepted, servedBy("public", 6379)), claims(rival, tcp(6379)), true},
		"nobody has it, as it was told":                {sti(listen(6379), handing("team-b/redis"), is(v1beta1.ConditionHandedOver, v1beta1.ReasonHandedOver)), nil, true},
		"nobody has it, and the ledger was lost":       {sti(listen(6379), handing("team-b/redis"), accepted, servedBy("public", 6379)), nil, false},
		"who is not named has it, and it never had":    {sti(listen(6379), handing("team-b/redis")), claims(other, tcp(6379)), false},
		"it no longer says so":                         {sti(listen(6379), is(v1beta1.ConditionHandedOver, v1beta1.ReasonHandedOver)), claims(rival, tcp(6379)), false},
		"it says so, but nobody can read it":           {sti(listen(6379), handing("redis"), accepted, servedBy("public", 6379)), claims(rival, tcp(6379)), false},
		"it has a port, and the heir another one":      {sti(listen(6379), handing("team-b/redis"), accepted, servedBy("public", 6379)), both(claims(rival, tcp(6379)), claims(claim.StreamHolder("shop", "postgres"), tcp(53))), false},
		"what is foreign has it":                       {sti(listen(6379), handing("team-b/redis"), accepted, servedBy("public", 6379)), claims(proxy, tcp(6379)), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{claims: tc.claims}
			got := HandedOver(f, tc.stream, class("public"))
			if (len(got) > 0) != tc.want || tc.want && got[0].Reason != v1beta1.ReasonHandedOver {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestInherits covers what an heir asks for: a promise alone, or what it had, makes nobody inherit.
func TestInherits(t *testing.T) {
	for name, tc := range map[string]struct {
		stream *v1beta1.StreamIngress
		want   bool
	}{
		"the port, in the class":                      {sti(listen(6379)), true},
		"the port, of a class that is yet to be told": {sti(of(""), listen(6379)), false},
		"another port":                                {sti(listen(6380)), false},
		"the port, in another class":                  {sti(of("internal"), listen(6379)), false},
		"the port, and the class serves it":           {sti(of(""), listen(6379), servedBy("public", 0)), true},
		"any port":                                    {sti(), false},
		"any port, and has had this one":              {sti(servedBy("public", 6379)), false},
		"the port, and another class has served it":   {sti(of(""), listen(6379), servedBy("internal", 1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Inherits(tc.stream, tcp(6379)); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestUnreadableHeir covers what may be written into the annotation.
func TestUnreadableHeir(t *testing.T) {
	for value, wrong := range map[string]bool{"team-b/redis": false, "redis": true, "": false, "a/b/c": true, "shop/postgres": true} {
		if got := UnreadableHeir(sti(), sti(handing(value))); (len(got) > 0) != wrong {
			t.Errorf("%q: %v", value, got)
		}
		if got := UnreadableHeir(sti(handing(value)), sti(handing(value))); len(got) > 0 {
			t.Errorf("%q is refused for what was there before: %v", value, got)
		}
	}
	if got := UnreadableHeir(nil, sti()); len(got) > 0 {
		t.Errorf("nothing is refused: %v", got)
	}
}
