package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestHeldAndClaims(t *testing.T) {
	me, ctx := claim.StreamHolder("shop", "postgres"), t.Context()
	sameText := claim.Holder{Group: "x.example", Kind: "StreamIngress", Namespace: "shop", Name: "postgres"}
	v := viewOf(t,
		claimOn("public", v1beta1.TCP, 443, me), claimOn("public", v1beta1.TCP, 80, me), claimOn("internal", v1beta1.UDP, 53, me),
		claimOn("public", v1beta1.TCP, 81, sameText), claimOn("public", v1beta1.TCP, 82, claim.StreamHolder("shop", "redis")),
	)
	tcp := func(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }
	got, err := v.Claims.Held(ctx, me)
	want := []claim.Coordinate{claim.Stream("internal", v1beta1.UDP, 53), tcp(80), tcp(443)}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b claim.Coordinate) bool { return a == b })); err != nil || diff != "" {
		t.Error("Held:", err, diff)
	}
	claims, err := v.Claims.OfClass(ctx, "public")
	if err != nil || len(claims) != 4 || claims[tcp(82)].Spec.HeldBy != "StreamIngress shop/redis" {
		t.Errorf("Claims: %v, %v", claims, err)
	}
	if claims, err := v.Claims.OfClass(ctx, "nosuch"); err != nil || len(claims) != 0 {
		t.Errorf("Claims of none: %v, %v", claims, err)
	}
}
