package kube

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func claimsOf(t *testing.T, v *View, namespace, family string) []string {
	t.Helper()
	claims, err := v.Claims.OfNamespace(t.Context(), namespace, family)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range claims {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// TestClaimsOfANamespace has claims in the cache, and others that this replica has made and the cache does not show.
func TestClaimsOfANamespace(t *testing.T) {
	by, web := claim.StreamHolder("shop", "a"), claim.ServiceHolder("shop", "web")
	point := func(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim {
		return claim.New(at, claim.Claimant{Holder: by})
	}
	shown := claimOn("public", v1beta1.TCP, 80, by)
	v := viewOf(t, shown, claimOn("internal", v1beta1.TCP, 80, by), claimOn("public", v1beta1.TCP, 81, claim.StreamHolder("data", "a")),
		point(portAt("192.0.2.1", tcp80), web), point(whole("192.0.2.2"), web), point(claim.NodePort("TCP", 80), web),
		point(claim.HTTP("example.com", "/"), web))
	has := func(family string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, claimsOf(t, v, "shop", family)); diff != "" {
			t.Errorf("%s: %s", family, diff)
		}
	}
	has("stream/public", "stream.public.tcp.80")
	has("addr", "addr.192-0-2-1.tcp.80", "addr.192-0-2-2")
	has("node", "node.tcp.80")

	made := claimOn("public", v1beta1.TCP, 90, by)
	if err := v.written.Write(made, func() error {
		has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90") // while it is being written
		made.ResourceVersion = "1000"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = v.written.Write(shown.DeepCopy(), func() error { return nil })
	has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90")

	refused := errors.New("refused")
	if err := v.written.Write(claimOn("public", v1beta1.TCP, 91, by), func() error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	_ = v.written.Write(made, func() error { return refused }) // that of another request is there
	path := point(claim.HTTP("example.com", "/x"), web)
	_ = v.written.Write(path, func() error { path.ResourceVersion = "1001"; return nil })
	has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90")
}

// TestReadsWhatItWrote reads claims in every way that there is, after the ledger has written some that the cache does not show.
func TestReadsWhatItWrote(t *testing.T) {
	by, web := claim.StreamHolder("shop", "a"), claim.ServiceHolder("shop", "web")
	gone := claimOn("public", v1beta1.TCP, 80, by)
	v := viewOf(t, gone)
	live := clientOf(t, gone.DeepCopy()).Build()
	ledger := NewLedger(live, live, v, claim.Ledger{})
	stored, err := ledger.Store.Get(t.Context(), gone.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Store.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	made := claimOn("public", v1beta1.TCP, 81, by)
	serves := claim.New(portAt("192.0.2.1", tcp80), claim.Claimant{Holder: web})
	serves.Spec.ClassName = "public"
	for _, c := range []*v1beta1.EdgeClaim{made, serves} {
		c.ResourceVersion = ""
		if err := ledger.Store.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, got []string, err error, want ...string) {
		t.Helper()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	names := func(claims []*v1beta1.EdgeClaim) (names []string) {
		for _, c := range claims {
			names = append(names, c.Name)
		}
		return names
	}
	for _, c := range []*v1beta1.EdgeClaim{gone, made} {
		got, err := v.Claim(t.Context(), c.Name)
		if err != nil || (got != nil) != (c == made) {
			t.Errorf("%s: got %v, %v", c.Name, got, err)
		}
		if got := ledger.Cached(c.Name); (got != nil) != (c == made) {
			t.Errorf("the ledger knows %s as %v", c.Name, got)
		}
	}
	claims, err := v.Claims.Of(t.Context(), by)
	is("of a holder", names(claims), err, made.Name)
	claims, err = v.Claims.Serving(t.Context(), "stream/public")
	is("serving a class", names(claims), err, serves.Name)
	is("of a namespace", claimsOf(t, v, "shop", "addr"), nil, serves.Name)
	byPoint, err := v.Claims.OfClass(t.Context(), "public")
	if err != nil || len(byPoint) != 1 || byPoint[claim.Stream("public", v1beta1.TCP, 81)] == nil {
		t.Errorf("of a class: %v, %v", byPoint, err)
	}
}
