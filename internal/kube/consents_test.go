package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// consentsBy are the consents by some ReferenceGrants of a cache, whose further events a test makes.
func consentsBy(t testing.TB, grants ...*gatewayv1beta1.ReferenceGrant) (*Consents, *controllertest.FakeInformer) {
	t.Helper()
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	book := newConsents(informers)
	if err := book.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &gatewayv1beta1.ReferenceGrant{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range grants {
		events.Add(g)
	}
	return book, events
}

// grantIn is a ReferenceGrant in a namespace, to Services of these names, "*" for all, and from namespaces, each with a comma.
func grantIn(namespace, from, to string) *gatewayv1beta1.ReferenceGrant {
	g := &gatewayv1beta1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "grant"}}
	for _, name := range strings.Split(from, ",") {
		g.Spec.From = append(g.Spec.From, gatewayv1.ReferenceGrantFrom{
			Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: gatewayv1.Namespace(name),
		})
	}
	for _, name := range strings.Split(to, ",") {
		t := gatewayv1.ReferenceGrantTo{Kind: "Service"}
		if name != "*" {
			t.Name = new(gatewayv1.ObjectName(name))
		}
		g.Spec.To = append(g.Spec.To, t)
	}
	return g
}

func TestGranted(t *testing.T) {
	from := gatewayv1.ReferenceGrantFrom{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "shop"}
	all, db := gatewayv1.ReferenceGrantTo{Kind: "Service"}, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("db"))}
	for name, tc := range map[string]struct {
		namespace string
		from      gatewayv1.ReferenceGrantFrom
		to        gatewayv1.ReferenceGrantTo
		want      bool
	}{
		"to the Service":               {"data", from, db, true},
		"to every Service":             {"data", from, all, true},
		"to another Service":           {"data", from, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("web"))}, false},
		"to a Service without a name":  {"data", from, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName(""))}, false},
		"to Secrets":                   {"data", from, gatewayv1.ReferenceGrantTo{Kind: "Secret"}, false},
		"to a Service of another kind": {"data", from, gatewayv1.ReferenceGrantTo{Group: "serving.example", Kind: "Service"}, false},
		"in another namespace":         {"web", from, db, false},
		"from another namespace":       {"data", gatewayv1.ReferenceGrantFrom{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "web"}, db, false},
		"from another kind":            {"data", gatewayv1.ReferenceGrantFrom{Group: "gateway.networking.k8s.io", Kind: "TCPRoute", Namespace: "shop"}, db, false},
		"from another group":           {"data", gatewayv1.ReferenceGrantFrom{Group: "x.example", Kind: "StreamIngress", Namespace: "shop"}, db, false},
	} {
		t.Run(name, func(t *testing.T) {
			book, _ := consentsBy(t, &gatewayv1beta1.ReferenceGrant{
				ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "grant"},
				Spec:       gatewayv1beta1.ReferenceGrantSpec{From: []gatewayv1.ReferenceGrantFrom{tc.from}, To: []gatewayv1.ReferenceGrantTo{tc.to}},
			})
			got, err := (&View{Consents: book}).Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"})
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestGrantedWhenGrantsCannotBeRead(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		fails error
		want  string
	}{
		"the Gateway API is not installed": {&meta.NoKindMatchError{}, ""},
		"the API server is away":           {away, "reading ReferenceGrants of namespace data: away"},
	} {
		t.Run(name, func(t *testing.T) {
			informers := &informertest.FakeInformers{Scheme: scheme(t), Error: tc.fails}
			v, service := &View{Consents: newConsents(informers)}, types.NamespacedName{Namespace: "data", Name: "db"}
			got, err := v.Granted(t.Context(), "shop", service)
			if got || err == nil != (tc.want == "") || err != nil && (err.Error() != tc.want || !errors.Is(err, away)) {
				t.Errorf("got %v, %v", got, err)
			}
			informers.Error = nil
			if got, err := v.Granted(t.Context(), "shop", service); got || err != nil {
				t.Errorf("when they can be read: %v, %v", got, err)
			}
		})
	}
}

// TestConsentsAreTold makes one change after the other, and has told what streams can notice of it.
func TestConsentsAreTold(t *testing.T) {
	first, annotated, another := grantIn("data", "shop", "db"), grantIn("data", "shop", "db"), grantIn("data", "shop", "db")
	annotated.Annotations, another.Name = map[string]string{"a": "b"}, "another"
	elsewhere, all, beside := grantIn("data", "shop", "web"), grantIn("data", "shop,game", "*"), grantIn("data", "shop,game", "db,*")
	all.Name, beside.Name = "all", "beside"
	nobodys := &gatewayv1beta1.ReferenceGrant{}
	book, events := consentsBy(t)
	var told []string
	v := &View{Consents: book}
	v.Consents.OnChange(func(changed []Consent) {
		for _, c := range changed {
			told = append(told, c.From+" to "+c.To.String())
		}
	})
	for _, step := range []struct {
		what          string
		before, after *gatewayv1beta1.ReferenceGrant
		want          []string
	}{
		{"the first", nil, first, []string{"shop to data/db"}},
		{"an annotation", first, annotated, nil},
		{"another that says the same", nil, another, nil},
		{"one of them goes", another, nil, nil},
		{"the other turns elsewhere", annotated, elsewhere, []string{"shop to data/db", "shop to data/web"}},
		{"one for all", nil, all, []string{"game to data/", "shop to data/"}},
		{"one by name beside it", nil, beside, nil},
		{"one by name goes", elsewhere, nil, nil},
		{"that for all goes", all, nil, nil},
		{"the last goes", beside, nil, []string{"game to data/", "shop to data/"}},
		{"nobody's comes", nil, nobodys, nil},
	} {
		for _, from := range []string{"shop", "game"} {
			if _, err := v.Granted(t.Context(), from, types.NamespacedName{Namespace: "data", Name: "db"}); err != nil {
				t.Fatal(err)
			}
		}
		told = nil
		switch {
		case step.before == nil:
			events.Add(step.after)
		case step.after == nil:
			events.Delete(step.before)
		default:
			events.Update(step.before, step.after)
		}
		slices.Sort(told)
		if diff := cmp.Diff(step.want, told); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
	events.Delete(nobodys)
	if len(book.given)+len(book.grants) > 0 {
		t.Errorf("what is gone is kept: %v, %v", book.given, book.grants)
	}
}

// TestConsentsThatNobodyHasAskedFor are told whatever they come to, as it is not known what they were.
func TestConsentsThatNobodyHasAskedFor(t *testing.T) {
	one, another := grantIn("data", "shop", "db"), grantIn("data", "shop", "db")
	another.Name = "another"
	book, events := consentsBy(t, one)
	told := 0
	v := &View{Consents: book}
	v.Consents.OnChange(func(changed []Consent) { told += len(changed) })
	events.Add(another)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	if _, err := v.Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "web"}); err != nil {
		t.Fatal(err)
	}
	events.Delete(one)
	if granted, err := v.Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"}); told != 1 || !granted || err != nil {
		t.Errorf("told %d times, granted %v, %v", told, granted, err)
	}
}

// TestConsentsThatAreReadFirstAreNotTold: all is looked at when they have been read.
func TestConsentsThatAreReadFirstAreNotTold(t *testing.T) {
	book, _ := consentsBy(t)
	v := &View{Consents: book}
	v.Consents.OnChange(func(changed []Consent) { t.Errorf("told of %v", changed) })
	book.set(grantIn("data", "shop", "db"), true, false)
	if granted, err := v.Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"}); err != nil || !granted {
		t.Errorf("got %v, %v", granted, err)
	}
}

// BenchmarkGranted asks for a consent among more and more others: it takes as long.
func BenchmarkGranted(b *testing.B) {
	for _, n := range []int{1, 3000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			book, events := consentsBy(b)
			for i := range n {
				g := grantIn("data", "shop", fmt.Sprintf("db-%d", i))
				g.Name = fmt.Sprint(i)
				events.Add(g)
			}
			v, service := &View{Consents: book}, types.NamespacedName{Namespace: "data", Name: "db"}
			for b.Loop() {
				if granted, err := v.Granted(b.Context(), "shop", service); granted || err != nil {
					b.Fatal(granted, err)
				}
			}
		})
	}
}
