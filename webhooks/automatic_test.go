package webhooks

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// TestAutoAssignEndsWithTheRequest has a class with ports of which somebody else has all: a request that nobody waits for any longer is
// not refused for it after they were all tried.
func TestAutoAssignEndsWithTheRequest(t *testing.T) {
	class := &v1beta1.StreamIngressClass{ObjectMeta: meta("", worldClass)}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	class.Spec.AutoAssign = &v1beta1.PortRange{From: 20000, To: 20001}
	foreign := configMapWith("tcp", []int32{20000, 20001})
	foreign.ManagedFields = nil
	w := newWorld(t, []client.Object{class, foreign}, nil)
	v := &streamValidator{view: w.view, ledger: w.ledger}
	s := streamTo(team(0), "new", 0)
	s.Spec.Listen = nil
	by := claim.Claimant{Holder: claim.StreamHolder(s.Namespace, s.Name), UID: s.UID}
	assign := func(ctx context.Context) (bool, error) {
		free := &stream.PortSet{}
		free.AddRange(20000, 20001)
		problems, _, err := v.autoAssign(ctx, s, by, stream.Request{Class: class, Free: free})
		return len(problems) > 0, err
	}
	if refused, err := assign(t.Context()); !refused || err != nil {
		t.Errorf("refused %v, %v", refused, err)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if refused, err := assign(ctx); refused || !errors.Is(err, context.Canceled) {
		t.Errorf("when it has ended: refused %v, %v", refused, err)
	}
}
