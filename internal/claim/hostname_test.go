package claim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	shopNames = NamespaceHolder("shop")
	blogNames = NamespaceHolder("blog")
)

func TestHostname(t *testing.T) {
	for host, name := range map[string]string{
		"shop.example.com":              "hostname.shop.example.com.",
		"*.example.com":                 "hostname.any.example.com.",
		"com":                           "hostname.com.",
		"Shop.example.com":              "",
		"a.*.example.com":               "",
		"":                              "",
		"_sip.example.com":              "",
		"example.com/login":             "",
		strings.Repeat("a.", 126) + "a": "hostname.a.a.",
	} {
		at := Hostname(host)
		if got := at.Name(); !strings.HasPrefix(got, name) || at.IsZero() != (name == "") || len(got) > maxName {
			t.Errorf("%q: %q, want %q...", host, got, name)
		}
		if at.IsZero() {
			continue
		}
		if at == Host(host) || at.Name() == Host(host).Name() || at.IsHTTP() || at.IsHost() || !at.IsHostname() {
			t.Errorf("%q is taken for what an Ingress serves", host)
		}
		back, err := Of(New(at, Claimant{Holder: shopNames}))
		if err != nil || back != at || at.Host() != host || at.Point() != host || at.Scope() != HostnameScope {
			t.Errorf("%q is read as %v, %v", host, back, err)
		}
	}
	forged := New(Hostname("a.example.com"), Claimant{Holder: shopNames})
	forged.Spec.Point = "b.example.com"
	if at, err := Of(forged); err == nil {
		t.Errorf("a claim of another name is read as %v", at)
	}
}

func TestSuffixes(t *testing.T) {
	for host, want := range map[string][]string{
		"a.b.c": {"b.c", "c"}, "*.b.c": {"b.c", "c"}, "c": nil, "": nil,
	} {
		if diff := cmp.Diff(want, Suffixes(host)); diff != "" {
			t.Errorf("%q: %s", host, diff)
		}
	}
}

// TestNamesThatOverlap claims a name beside a wildcard: what the cache knows of is looked at live, and what was made is taken back.
func TestNamesThatOverlap(t *testing.T) {
	name, wildcard := Hostname("a.example.com"), Hostname("*.example.com")
	for what, tc := range map[string]struct {
		stored  Holder
		knows   []string
		refused bool
	}{
		"of another namespace": {blogNames, []string{wildcard.Name()}, true},
		"of its own":           {shopNames, []string{wildcard.Name()}, false},
		"that is gone":         {blogNames, []string{Hostname("*.gone.com").Name()}, false},
		"that does not count":  {blogNames, nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			by := Claimant{Holder: shopNames, UID: "i1"}
			for verb, call := range map[string]func(*Ledger) error{
				"Reserve": func(l *Ledger) error { return l.Reserve(t.Context(), by, nil, name) },
				"Claim":   func(l *Ledger) error { _, err := l.Claim(t.Context(), by, nil, name); return err },
				"Check":   func(l *Ledger) error { return l.Check(t.Context(), by, nil, name) },
			} {
				store := NewFake(held(wildcard, tc.stored, "o1", 1, start))
				l := ledgerAt(store, start)
				var asked []string
				l.Overlapping = func(_ context.Context, at Coordinate, holder Holder, version string) ([]string, error) {
					asked = append(asked, at.Host()+" "+holder.String())
					if mine, err := store.Get(t.Context(), name.Name()); (verb == "Check") != (err != nil) || err == nil && version != mine.ResourceVersion {
						t.Errorf("%s asks at version %q, and %v is stored", verb, version, mine)
					}
					return tc.knows, nil
				}
				err := call(l)
				if IsHeld(err) != tc.refused || err != nil && !tc.refused {
					t.Errorf("%s: %v", verb, err)
				}
				if _, missing := store.Get(t.Context(), name.Name()); (missing == nil) != (verb != "Check" && !tc.refused) {
					t.Errorf("%s leaves a claim: %v", verb, missing == nil)
				}
				if diff := cmp.Diff([]string{"a.example.com Namespace shop"}, asked); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestNamesThatCantBeLookedAt has the cache lag for longer than a request waits.
func TestNamesThatCantBeLookedAt(t *testing.T) {
	store := NewFake()
	lags := errors.New("the cache lags")
	l := ledgerAt(store, start)
	l.Overlapping = func(context.Context, Coordinate, Holder, string) ([]string, error) { return nil, lags }
	at := Hostname("a.example.com")
	if err := l.Reserve(t.Context(), Claimant{Holder: shopNames, UID: "i1"}, nil, at); !errors.Is(err, lags) {
		t.Errorf("reserved with %v", err)
	}
	if _, err := store.Get(t.Context(), at.Name()); err == nil {
		t.Error("a claim is left that nobody counts on")
	}
}

// TestATenantIsANamespace counts what a namespace was promised for its names with what its objects were.
func TestATenantIsANamespace(t *testing.T) {
	for holder, want := range map[Holder]string{
		shopNames: "shop", ServiceHolder("shop", "web"): "shop", ClassHolder("public"): "", {}: "",
	} {
		if got := holder.Tenant(); got != want {
			t.Errorf("%s: %q, want %q", holder, got, want)
		}
	}
}

// TestNamesThatOverlapAreNotHandedOver has a namespace come to have a wildcard at the moment at which it hands over a name below: the cache
// shows the wildcard only once it shows the promise, and the promise is taken back.
func TestNamesThatOverlapAreNotHandedOver(t *testing.T) {
	name, wildcard := Hostname("a.example.com"), Hostname("*.example.com")
	for verb, call := range map[string]func(*Ledger, Claimant) error{
		"Reserve": func(l *Ledger, by Claimant) error { return l.Reserve(t.Context(), by, nil, name) },
		"Claim":   func(l *Ledger, by Claimant) error { _, err := l.Claim(t.Context(), by, nil, name); return err },
	} {
		for _, overlaps := range []bool{true, false} {
			store := NewFake(held(name, shopNames, "o1", 1, start), held(wildcard, shopNames, "o2", 1, start))
			l := ledgerAt(store, start.Add(time.Hour))
			l.HandsOver = func(_ context.Context, _ *v1beta1.EdgeClaim, to Claimant, _ bool) (bool, error) {
				return to.Holder == blogNames, nil
			}
			l.Overlapping = func(_ context.Context, _ Coordinate, _ Holder, version string) ([]string, error) {
				if version == "" || !overlaps {
					return nil, nil
				}
				return []string{wildcard.Name()}, nil
			}
			err := call(l, Claimant{Holder: blogNames, UID: "i1"})
			if IsHeld(err) != overlaps || err != nil && !overlaps {
				t.Errorf("%s, beside a wildcard: %v: %v", verb, overlaps, err)
			}
			c, err := store.Get(t.Context(), name.Name())
			if err != nil || overlaps && (HolderOf(c) != shopNames || c.Spec.Heir != nil) ||
				!overlaps && HolderOf(c) != blogNames && HeirOf(c) != blogNames {
				t.Errorf("%s, beside a wildcard: %v: it is held by %s, for %v, %v", verb, overlaps, c.Spec.HeldBy, c.Spec.Heir, err)
			}
		}
	}
}

// TestWhatIsPromisedOverlaps has a namespace ask for a wildcard while a name below is promised to another one.
func TestWhatIsPromisedOverlaps(t *testing.T) {
	name, wildcard := Hostname("a.example.com"), Hostname("*.example.com")
	for _, promised := range []bool{true, false} {
		c := held(name, shopNames, "o1", 1, start)
		if promised {
			c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: blogNames.Spec("i1")}
		}
		l := ledgerAt(NewFake(c), start)
		l.Overlapping = func(context.Context, Coordinate, Holder, string) ([]string, error) { return []string{name.Name()}, nil }
		if err := l.Reserve(t.Context(), Claimant{Holder: shopNames, UID: "i2"}, nil, wildcard); IsHeld(err) != promised {
			t.Errorf("promised: %v: %v", promised, err)
		}
	}
}
