package hostname

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestTheMostSpecificPolicyCounts(t *testing.T) {
	book := NewBook([]*v1beta1.HostPolicy{
		policy("wide", 1, []string{"*.example.com", "example.com"}, owns), policy("nested", 2, []string{"*.team.example.com"}, owns),
		policy("one", 3, []string{"shop.example.com", "a.team.example.com"}, owns), policy("late", 4, []string{"example.com", "late.test"}, owns),
		policy("shared", 5, []string{"*.shared.test"}),
	})
	for host, want := range map[string]string{
		"example.com": "wide", "www.example.com": "wide", "a.b.example.com": "wide", "*.example.com": "wide", "*.b.example.com": "wide",
		"shop.example.com": "one", "x.shop.example.com": "wide", "team.example.com": "wide", "*.team.example.com": "nested",
		"x.team.example.com": "nested", "a.team.example.com": "one", "late.test": "late", "com": "", "*.com": "", "notexample.com": "",
		"": "", ".": "", "a..example.com": "wide", "x.shared.test": "shared",
	} {
		got := ""
		if p := book.For(host); p != nil {
			got = p.Name
		}
		mustBe(t, host, got, want)
	}
	mustBe(t, "the owner of a shared name", book.Owner("x.shared.test"), nil)
	if diff := cmp.Diff([]string{"0 example.com of wide"}, conflictsOf(book.Conflicts("late"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1 example.com of wide", "2 late.test of late"},
		conflictsOf(book.Beside(policy("new", 9, []string{"new.test", "example.com", "late.test"})))); diff != "" {
		t.Error(diff)
	}
	mustBe(t, "hosts of its own", len(book.Beside(policy("one", 3, []string{"shop.example.com"}))), 0)
}

func conflictsOf(conflicts []Conflicting) (texts []string) {
	for _, c := range conflicts {
		texts = append(texts, strings.Join([]string{string(rune('0' + c.Index)), c.Host, "of", c.Older.Name}, " "))
	}
	return texts
}

// TestWildcardsAbove covers which wildcards can't be beside a name: those of the same policy.
func TestWildcardsAbove(t *testing.T) {
	book := NewBook([]*v1beta1.HostPolicy{
		policy("wide", 1, []string{"*.example.com"}, owns), policy("nested", 2, []string{"*.team.example.com"}, owns), policy("shared", 3, []string{"*.shared.test"}),
	})
	for host, want := range map[string]string{
		"a.example.com": "*.example.com", "a.b.example.com": "*.b.example.com *.example.com", "*.b.example.com": "*.example.com",
		"*.example.com": "", "a.team.example.com": "*.team.example.com", "*.team.example.com": "", "a.shared.test": "", "a.free.test": "",
	} {
		var got []string
		for _, at := range book.Above(host) {
			got = append(got, at.Host())
		}
		mustBe(t, host, strings.Join(got, " "), want)
	}
}

func TestAPolicyThatSelectsNobody(t *testing.T) {
	p := policy("broken", 1, []string{"*.example.com"}, owns)
	p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Around"}}}
	problems := PolicyProblems(Read(p), nil)
	if len(problems) != 1 || problems[0].Err.Field != "spec.namespaceSelector" {
		t.Errorf("problems %v", problems)
	}
	mustBe(t, "it allows a namespace", Read(p).Allows(nil), false)
	mustBe(t, "without a selector it allows one", Read(policy("all", 1, nil)).Allows(nil), true)
	order := []*v1beta1.HostPolicy{policy("b", 1, []string{"x.test"}), policy("a", 1, []string{"x.test"})}
	for range 2 {
		mustBe(t, "of two as old", NewBook(order).For("x.test").Name, "a")
		slices.Reverse(order)
	}
}
