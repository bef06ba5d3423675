package hostname

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fakeFacts are a cluster in memory.
type fakeFacts struct {
	book   *Book
	claims []*v1beta1.EdgeClaim
	users  []User
}

func (f *fakeFacts) HostPolicies() *Book { return f.book }

func (f *fakeFacts) NamespaceLabels(name string) labels.Set { return labels.Set{"team": name} }

func (f *fakeFacts) Claim(name string) *v1beta1.EdgeClaim {
	for _, c := range f.claims {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (f *fakeFacts) Held(by claim.Holder) (held []claim.Coordinate) {
	for _, c := range f.claims {
		if at, err := claim.Of(c); err == nil && claim.HolderOf(c) == by {
			held = append(held, at)
		}
	}
	return held
}

func (f *fakeFacts) Promised(to claim.Holder) (promised []claim.Coordinate) {
	for _, c := range f.claims {
		if at, err := claim.Of(c); err == nil && claim.HeirOf(c) == to {
			promised = append(promised, at)
		}
	}
	return promised
}

func (f *fakeFacts) Overlapping(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim {
	for _, above := range f.book.Above(at.Host()) {
		if c := f.Claim(above.Name()); c != nil && claim.HolderOf(c) != by {
			return c
		}
	}
	for _, c := range f.claims {
		for _, above := range f.book.Above(c.Spec.Point) {
			if above == at && claim.HolderOf(c) != by {
				return c
			}
		}
	}
	return nil
}

func (f *fakeFacts) UsedIn(namespace, host string) bool {
	for _, u := range f.users {
		if u.Namespace == namespace && u.Uses(host) {
			return true
		}
	}
	return false
}

func (f *fakeFacts) Having(namespace string, at claim.Coordinate) (having []User) {
	for _, u := range f.users {
		if u.Namespace == namespace && u.Uses(at.Host()) {
			having = append(having, u)
		}
	}
	return having
}

func (f *fakeFacts) Names(giver *User, heir types.NamespacedName) bool { return giver.Heir == heir }

func (f *fakeFacts) Using(host string) (using []User) {
	for _, u := range f.users {
		if u.Uses(host) {
			using = append(using, u)
		}
	}
	return using
}

// policy is a policy; those that are made later are younger.
func policy(name string, age int, hosts []string, change ...func(*v1beta1.HostPolicySpec)) *v1beta1.HostPolicy {
	p := &v1beta1.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(time.Duration(age) * time.Hour))}}
	p.Spec.Hosts = hosts
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func owns(s *v1beta1.HostPolicySpec) { s.Sharing = v1beta1.ShareNamespace }

func atMost(n int32) func(*v1beta1.HostPolicySpec) {
	return func(s *v1beta1.HostPolicySpec) { s.MaxPerNamespace = &n }
}

func forTeam(name string) func(*v1beta1.HostPolicySpec) {
	return func(s *v1beta1.HostPolicySpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
}

// held is the claim of a namespace on a host name.
func held(host, namespace string) *v1beta1.EdgeClaim {
	c := claim.New(claim.Hostname(host), claim.Claimant{Holder: claim.NamespaceHolder(namespace)})
	c.CreationTimestamp = metav1.NewTime(start)
	return c
}

// using is an Ingress of a namespace that uses host names.
func using(namespace string, hour int, hosts ...string) User {
	u := User{Holder: claim.IngressHolder(namespace, "web"), Created: start.Add(time.Duration(hour) * time.Hour), Version: "7"}
	for i, host := range hosts {
		u.Names = append(u.Names, read(host, field.NewPath("spec", "rules").Index(i).Child("host"), guard.Ingress))
	}
	return u
}

// leaving is a user that is being deleted.
func leaving(u User) User {
	u.Deleting = true
	return u
}

func noGrace(*v1beta1.EdgeClaim) time.Duration { return time.Minute }

func mustBe[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
