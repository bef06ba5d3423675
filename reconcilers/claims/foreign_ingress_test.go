package claims

import (
	"fmt"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestWhoWasFirst has the Ingress shop/web, which lists the path /0, entered beside others.
func TestWhoWasFirst(t *testing.T) {
	web, large, other := serving("web", 0, 1), serving("large", 0, 5), serving("other", 0, 5)
	web.CreationTimestamp = metav1.NewTime(accesstest.Noon)
	large.CreationTimestamp = metav1.NewTime(accesstest.Noon.Add(time.Hour))
	other.CreationTimestamp = metav1.NewTime(accesstest.Noon.Add(2 * time.Hour))
	hosts := serving("hosts", 0, 1)
	for i := range exposure.MostEntries {
		hosts.Spec.Rules = append(hosts.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.io", i)})
	}
	path, host := claim.HTTP("a.io", "/0"), claim.Host("a.io")
	held := func(at claim.Coordinate, by *networkingv1.Ingress) client.Object {
		return claim.New(at, claim.Claimant{Holder: holderOfIngress(by)})
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    *networkingv1.Ingress
	}{
		"alone":                                {nil, web},
		"another with few paths":               {[]client.Object{serving("few", 0, 2)}, web},
		"one with many paths, on its host":     {[]client.Object{large, held(host, large)}, large},
		"one that is about to have its host":   {[]client.Object{large}, large},
		"one that has come later":              {[]client.Object{large, held(host, large), held(path, web)}, web},
		"one that serves other paths":          {[]client.Object{serving("large", 1, 6), held(host, large)}, web},
		"two, of which the second has it":      {[]client.Object{large, other, held(host, other)}, other},
		"two, and a third has it":              {[]client.Object{other, large, held(host, serving("third", 0, 0))}, large},
		"one, on the host that it had before":  {[]client.Object{large, held(host, web)}, web},
		"one with too many hosts":              {[]client.Object{hosts}, hosts},
		"that, and one that has the host":      {[]client.Object{hosts, large, held(host, large)}, large},
		"one that served the path, and is not": {[]client.Object{held(host, large)}, web},
	} {
		t.Run(name, func(t *testing.T) {
			b := baseExposing(t, append(tc.objects, web)...)
			r := &foreignIngressReconciler{Access: b}
			if _, err := r.Reconcile(t.Context(), claimRequest{Holder: holderOfIngress(web)}); err != nil {
				t.Fatal(err)
			}
			c, err := b.View.Claim(t.Context(), path.Name())
			if err != nil || c == nil || claim.HolderOf(c) != holderOfIngress(tc.want) {
				t.Errorf("got %v, %v, want %s", c, err, tc.want.Name)
			}
		})
	}
}

// TestNoPathIsTriedThatAnEarlierClaimKeeps has an Ingress serve a path of the class public, on which another has a claim of no class.
func TestNoPathIsTriedThatAnEarlierClaimKeeps(t *testing.T) {
	for class, enters := range map[string]bool{"public": false, "internal": true} {
		web, other := serving("web", 0, 1), serving("other", 0, 1)
		web.Spec.IngressClassName, other.Spec.IngressClassName = new("public"), &class
		path := claim.HTTP("a.io", "/0")
		b := baseExposing(t, web, other, claim.New(path, claim.Claimant{Holder: holderOfIngress(other)}))
		r := &foreignIngressReconciler{Access: b}
		result, err := r.Reconcile(t.Context(), claimRequest{Holder: holderOfIngress(web)})
		if err != nil || (result.RequeueAfter == 0) != enters {
			t.Errorf("beside one of class %s: %+v, %v", class, result, err)
		}
		c, err := b.View.Claim(t.Context(), path.ServedBy("public").Name())
		if err != nil || (c != nil) != enters {
			t.Errorf("beside one of class %s it has %v, %v", class, c, err)
		}
	}
}

// TestEarlierClaimsSayWhoWasFirst has an Ingress with one path, and one with many which lists that, too, be entered for their class. One of
// them has the path by a claim of no class.
func TestEarlierClaimsSayWhoWasFirst(t *testing.T) {
	public := func(ing *networkingv1.Ingress) *networkingv1.Ingress {
		ing.Spec.IngressClassName = new("public")
		return ing
	}
	small, large := public(serving("small", 0, 1)), public(serving("large", 0, 6))
	path := claim.HTTP("a.io", "/0")
	for _, had := range []*networkingv1.Ingress{small, large} {
		b := baseExposing(t, small, large, claim.New(path, claim.Claimant{Holder: holderOfIngress(had)}),
			claim.New(claim.Host("a.io").ServedBy("public"), claim.Claimant{Holder: holderOfIngress(large)}))
		r := &foreignIngressReconciler{Access: b}
		if result, err := r.Reconcile(t.Context(), claimRequest{Holder: holderOfIngress(small)}); err != nil || result.RequeueAfter != 0 {
			t.Errorf("where %s had it: %+v, %v", had.Name, result, err)
		}
		c, err := b.View.Claim(t.Context(), path.ServedBy("public").Name())
		if err != nil || c == nil || claim.HolderOf(c) != holderOfIngress(had) {
			t.Errorf("where %s had it, it is %v, %v", had.Name, c, err)
		}
	}
}

// TestPathsOnTheHostOfAnother has an Ingress with many paths entered on a host of which another one with many has the claim, which
// lists two of them.
func TestPathsOnTheHostOfAnother(t *testing.T) {
	many, other := serving("many", 0, 6), serving("other", 4, 9)
	for name, tc := range map[string]struct {
		holder *networkingv1.Ingress
		want   int
	}{"another has the host": {other, 4}, "it has the host itself": {many, 0}} {
		t.Run(name, func(t *testing.T) {
			held := claim.New(claim.Host("a.io"), claim.Claimant{Holder: holderOfIngress(tc.holder)})
			b := baseExposing(t, many, other, held)
			r := &foreignIngressReconciler{Access: b}
			for range 2 { // the second time changes nothing
				if _, err := r.Reconcile(t.Context(), claimRequest{Holder: holderOfIngress(many)}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 9 {
				c, err := b.View.Claim(t.Context(), claim.HTTP("a.io", fmt.Sprintf("/%d", i)).Name())
				if has := c != nil && claim.HolderOf(c) == holderOfIngress(many); err != nil || has != (i < tc.want) || c != nil && !has {
					t.Errorf("of /%d it has %v, %v", i, c, err)
				}
			}
		})
	}
}
