package rules

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// world is all views of what is written down here.
type world struct {
	classes    []*v1beta1.StreamIngressClass
	namespaces map[string]labels.Set
	services   map[string]*corev1.Service
	claims     map[claim.Coordinate]*v1beta1.EdgeClaim
	// pools are in the book, which does not change; unread are stored and not in it yet.
	pools, unread []*v1beta1.AddressPool
	book          *addresspool.Book
	// maxPorts is how many ports one Service gets of what it shares.
	maxPorts int
	// grace is how long a claim is kept whose holder is gone.
	grace time.Duration

	// asked counts the questions, and failing is the one that gets an error for an answer.
	asked   map[string]int
	failing string
}

var errAway = errors.New("the cluster is away")

func (w *world) ask(question string) error {
	if w.asked == nil {
		w.asked = map[string]int{}
	}
	w.asked[question]++
	if question == w.failing {
		return errAway
	}
	return nil
}

func (w *world) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	return w.namespaces[name], w.ask("NamespaceLabels")
}

func (w *world) Service(_ context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return w.services[key.String()], w.ask("Service")
}

func (w *world) Held(_ context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	var held []claim.Coordinate
	for at, c := range w.claims {
		if claim.HolderOf(c) == by {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return held, w.ask("Held")
}

func (w *world) Claim(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	at, err := claim.Parse(name)
	if err != nil {
		return nil, err
	}
	return w.claims[at], w.ask("Claim")
}

func (w *world) ClaimsOfNamespace(_ context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error) {
	in := func(at claim.Coordinate) bool {
		return claim.ScopeFamily(at.Scope()) == family && w.claims[at].Spec.Holder.Namespace == namespace
	}
	return w.claimsWhere(in), w.ask("ClaimsOfNamespace")
}

func (w *world) Fronts(context.Context) ([]types.NamespacedName, error) {
	var fronts []types.NamespacedName
	for _, c := range w.classes {
		if ref := c.Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return fronts, w.ask("Fronts")
}

// since is when all claims of the tests were made.
var since = time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC)

// claims are claims of one holder on some points.
func claims(by claim.Holder, points ...claim.Coordinate) map[claim.Coordinate]*v1beta1.EdgeClaim {
	all := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	for _, at := range points {
		c := claim.New(at, claim.Claimant{Holder: by, UID: "u", Generation: 1})
		c.CreationTimestamp = metav1.NewTime(since)
		all[at] = c
	}
	return all
}

func both(a, b map[claim.Coordinate]*v1beta1.EdgeClaim) map[claim.Coordinate]*v1beta1.EdgeClaim {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func tcp(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }

// class is a class with ConfigMaps and a Service of its own.
func class(name string, change ...func(*v1beta1.StreamIngressClass)) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{}
	c.Name = name
	c.Spec = v1beta1.StreamIngressClassSpec{
		TCPConfigMap: &v1beta1.ObjectReference{Namespace: "edge", Name: name + "-tcp"},
		UDPConfigMap: &v1beta1.ObjectReference{Namespace: "edge", Name: name + "-udp"},
		Service:      &v1beta1.ObjectReference{Namespace: "edge", Name: name},

		OutsideUpstreams: v1beta1.OutsideAllowed,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func onHostNetwork(c *v1beta1.StreamIngressClass) { c.Spec.Service = nil }

// verdict is a problem as people read it.
type verdict struct{ Reason, Text string }

func verdicts(problems refusal.Problems) []verdict {
	var all []verdict
	for _, p := range problems {
		all = append(all, verdict{p.Reason, p.Err.Error()})
	}
	return all
}

// judge runs a rule, compares its verdict, and then proves that it hides no error of any question it asks.
func judge(t *testing.T, w *world, rule func() (refusal.Problems, error), want ...verdict) {
	t.Helper()
	got, err := rule()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, verdicts(got)); diff != "" {
		t.Error(diff)
	}
	for question := range maps.Clone(w.asked) {
		w.failing = question
		if got, err := rule(); !errors.Is(err, errAway) {
			t.Errorf("when %s fails it says %v, %v", question, verdicts(got), err)
		}
	}
	w.failing = ""
}
