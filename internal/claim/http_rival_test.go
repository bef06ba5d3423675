package claim

import (
	"context"
	"errors"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestClaimsOfNoClass covers what a claim that names no class keeps from others. What is refused leaves nothing behind.
func TestClaimsOfNoClass(t *testing.T) {
	path := HTTP("example.com", "/")
	at, bobs := path.ServedBy("public"), held(path, ServiceHolder("shop", "bob"), "b1", 1, start)
	for name, tc := range map[string]struct {
		stored  *v1beta1.EdgeClaim
		at      Coordinate
		class   string
		known   bool
		err     error
		gives   Holder
		refused bool
	}{
		"nobody has one":                       {at: at},
		"one for the same class":               {stored: bobs, at: at, class: "public", known: true, refused: true},
		"one for another class":                {stored: bobs, at: at, class: "internal", known: true},
		"one that is for no class":             {stored: bobs, at: at, known: true},
		"one for who knows which":              {stored: bobs, at: at, refused: true},
		"one that its holder would hand over":  {stored: bobs, at: at, class: "public", known: true, gives: ServiceHolder("shop", "bob"), refused: true},
		"one that another would hand over":     {stored: bobs, at: at, class: "public", known: true, gives: ServiceHolder("shop", "eve"), refused: true},
		"one of which nothing can be told now": {stored: bobs, at: at, err: errors.New("away"), refused: true},
		"its own":                              {stored: held(path, ServiceHolder("shop", "alice"), "a1", 1, start), at: at},
		"that of the Ingress of its name":      {stored: held(path, IngressHolder("shop", "alice"), "a1", 1, start), at: at},
		"one on another path":                  {stored: bobs, at: HTTP("example.com", "/other").ServedBy("public")},
		"one for a class, beside one of none":  {stored: held(at, ServiceHolder("shop", "bob"), "b1", 1, start), at: path},
	} {
		t.Run(name, func(t *testing.T) {
			by := Claimant{Holder: ServiceHolder("shop", "alice"), UID: "a1", Generation: 1}
			for verb, call := range map[string]func(*Ledger) error{
				"Reserve": func(l *Ledger) error { return l.Reserve(t.Context(), by, nil, tc.at) },
				"Claim":   func(l *Ledger) error { _, err := l.Claim(t.Context(), by, nil, tc.at); return err },
				"Check":   func(l *Ledger) error { return l.Check(t.Context(), by, nil, tc.at) },
			} {
				var stored []*v1beta1.EdgeClaim
				if tc.stored != nil {
					stored = append(stored, tc.stored)
				}
				m := NewFake(stored...)
				l := ledgerAt(m, start)
				l.HandsOver = func(_ context.Context, found *v1beta1.EdgeClaim, to Claimant, _ bool) (bool, error) {
					return HolderOf(found) == tc.gives && to.Holder == by.Holder, nil
				}
				l.ClassFor = func(context.Context, Holder) (string, bool, error) { return tc.class, tc.known, tc.err }
				if err := call(l); (err != nil) != tc.refused || tc.refused && tc.err == nil && !IsHeld(err) || tc.err != nil && !errors.Is(err, tc.err) {
					t.Errorf("%s: %v", verb, err)
				}
				if has := m.stored[tc.at.Name()] != nil; has != (!tc.refused && verb != "Check") {
					t.Errorf("%s leaves a claim: %t", verb, has)
				}
			}
		})
	}
}
