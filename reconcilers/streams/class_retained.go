package streams

import (
	"context"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// retain keeps the entries of ours that nobody has a claim on as they are, where streams are about to claim their ports: after a
// loss of the ledger each entry stays until its stream was looked at, and tells which port that had.
func (r *classReconciler) retain(
	ctx context.Context, s *proxyState, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) error {
	var unclaimed []int32
	for port := range cm.current.Ours {
		if _, isWanted := wanted[port]; isWanted {
			continue
		}
		at := claim.Stream(s.class.Name, cm.protocol, port)
		switch {
		case s.claims[at] == nil:
			unclaimed = append(unclaimed, port)
		case s.behind[at]:
			cm.current.Leave(wanted, port)
		}
	}
	if len(unclaimed) == 0 {
		return nil
	}
	retained, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []int32 { return stream.Retained(f, s.class, cm.protocol, unclaimed) })
	if err != nil {
		return err
	}
	for _, port := range retained {
		cm.current.Leave(wanted, port)
	}
	for _, port := range unclaimed {
		// Who has claimed the port since the claims were read does not wait for it any longer.
		claimed, err := r.isClaimed(ctx, s.class, stream.PortKey{Protocol: cm.protocol, Port: port})
		if err != nil {
			return err
		}
		if claimed {
			cm.current.Leave(wanted, port)
		}
	}
	if len(retained) > 0 {
		report.retry(pendingRetry)
	}
	return nil
}

// isClaimed says whether anybody has a claim on a port of a class.
func (r *classReconciler) isClaimed(ctx context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey) (bool, error) {
	c, err := r.View.Claim(ctx, claim.Stream(class.Name, port.Protocol, port.Port).Name())
	return c != nil, err
}
