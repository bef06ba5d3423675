package stream

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func programmed(status metav1.ConditionStatus) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionProgrammed, Status: status}}
	}
}

func had(class string, port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Status.Previous = &v1beta1.PreviousDoor{ClassName: class, Protocol: v1beta1.TCP, Listen: port}
	}
}

func isDeleted(s *v1beta1.StreamIngress) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// TestOpens asks at which points of classes a, b and c a stream is to be open that holds port 1 of a, 2 of b and 3 of c.
func TestOpens(t *testing.T) {
	const open, closed = metav1.ConditionTrue, metav1.ConditionFalse
	a, b, c := claim.Stream("a", v1beta1.TCP, 1), claim.Stream("b", v1beta1.TCP, 2), claim.Stream("c", v1beta1.TCP, 3)
	all := []claim.Coordinate{a, b, c}
	type change = func(*v1beta1.StreamIngress)
	for name, tc := range map[string]struct {
		change []change
		held   []claim.Coordinate
		want   []claim.Coordinate
	}{
		"it names no class, and has none":    {[]change{of("")}, all, all},
		"it names no class":                  {[]change{of(""), servedBy("a", 1), programmed(open)}, all, []claim.Coordinate{a}},
		"it is where it wants to be":         {[]change{of("a"), servedBy("a", 1), programmed(open)}, all, []claim.Coordinate{a}},
		"nothing is said yet of where it is": {[]change{of("b")}, all, []claim.Coordinate{b}},
		"it begins to move":                  {[]change{of("b"), servedBy("a", 1), programmed(open)}, all, []claim.Coordinate{a, b}},
		"from a door that may be closed":     {[]change{of("b"), servedBy("a", 1), programmed(closed)}, all, []claim.Coordinate{a, b}},
		"it is deleted before it moves":      {[]change{of("b"), servedBy("a", 1), programmed(open), isDeleted}, all, []claim.Coordinate{b}},
		"it is deleted while it moves":       {[]change{of("b"), servedBy("b", 2), programmed(closed), had("a", 1), isDeleted}, all, []claim.Coordinate{b}},
		"it names no class any longer":       {[]change{of(""), servedBy("b", 2), programmed(closed), had("a", 1)}, all, []claim.Coordinate{a, b}},
		"from a port that it does not hold":  {[]change{of("b"), servedBy("a", 1), programmed(open)}, all[1:], []claim.Coordinate{b}},
		"it moves":                           {[]change{of("b"), servedBy("b", 2), programmed(closed), had("a", 1)}, all, []claim.Coordinate{a, b}},
		"the new door is open":               {[]change{of("b"), servedBy("b", 2), programmed(open), had("a", 1)}, all, []claim.Coordinate{a, b}},
		"it moves on before that":            {[]change{of("c"), servedBy("b", 2), programmed(closed), had("a", 1)}, all, []claim.Coordinate{a, c}},
		"it moves on after that":             {[]change{of("c"), servedBy("b", 2), programmed(open), had("a", 1)}, all, []claim.Coordinate{b, c}},
		"it moves back before that":          {[]change{of("a"), servedBy("b", 2), programmed(closed), had("a", 1)}, all, []claim.Coordinate{a}},
		"it moves back after that":           {[]change{of("a"), servedBy("b", 2), programmed(open), had("a", 1)}, all, []claim.Coordinate{a, b}},
		"the status names another port":      {[]change{of("b"), servedBy("b", 2), had("a", 7)}, all, []claim.Coordinate{b}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sti(tc.change...)
			var got []claim.Coordinate
			for _, at := range all {
				if Opens(s, at.Class(), tc.held) == at {
					got = append(got, at)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b claim.Coordinate) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPreviousDoor(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 700_000_000, time.UTC)
	at := claim.Stream("a", v1beta1.TCP, 1)
	door := func(class string, closes ...time.Time) *v1beta1.PreviousDoor {
		d := &v1beta1.PreviousDoor{ClassName: class, Protocol: v1beta1.TCP, Listen: 1}
		for _, then := range closes {
			d.CloseTime = &metav1.Time{Time: then}
		}
		return d
	}
	soon := time.Date(2026, 11, 26, 12, 0, 6, 0, time.UTC)
	for name, tc := range map[string]struct {
		former claim.Coordinate
		before *v1beta1.PreviousDoor
		isOpen bool
		want   *v1beta1.PreviousDoor
	}{
		"there is none":                      {claim.Coordinate{}, door("a"), true, nil},
		"it begins":                          {at, nil, false, door("a")},
		"the new one is not open":            {at, door("a"), false, door("a")},
		"the new one is not open any longer": {at, door("a", soon), false, door("a")},
		"the new one is open":                {at, door("a"), true, door("a", soon)},
		"and was from the first moment":      {at, nil, true, door("a", soon)},
		"it is about to be closed":           {at, door("a", now.Add(time.Second)), true, door("a", now.Add(time.Second))},
		"it is closed":                       {at, door("a", now), true, nil},
		"another is about to be closed":      {at, door("b", now), true, door("a", soon)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, PreviousDoor(tc.former, tc.before, tc.isOpen, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
