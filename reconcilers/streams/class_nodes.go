package streams

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// claimersAtOnce is how many ports of the nodes are claimed side by side. There are many when the first pool of the nodes'
// addresses is made.
const claimersAtOnce = 8

// claimNodes claims on the nodes every port on which somebody has a claim of a class without a Service, as its proxy listens there.
// That includes what is foreign, and streams that may not be programmed now, which keep their ports.
//
// A port that a Service has there is not opened: it is left out of what is wanted. One whose entry stands stays open, and the entry
// changes with its stream: the proxy listens there in any case. Either is reported.
func (r *classReconciler) claimNodes(
	ctx context.Context, s *proxyState, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) error {
	if !s.class.OnNodes() {
		return nil
	}
	front, err := r.frontOf(ctx, s.class)
	if err != nil || front == nil {
		return err
	}
	refused, err := r.claimOnNodes(ctx, front, s, cm.protocol)
	if err != nil {
		return err
	}
	for port, held := range refused {
		_, isWanted := wanted[port.Port]
		_, isListed := cm.current.Data[stream.Key(port.Port)]
		if !isWanted && !isListed {
			continue
		}
		if !isListed {
			delete(wanted, port.Port)
		}
		on := claim.NodePort(string(port.Protocol), port.Port)
		report.refuse(port, v1beta1.ReasonPortRefused, takenOnNodes(front.Refused(r.View.LoadBalancers.ReservedNodePorts, on, held.Claim)))
	}
	return nil
}

// claimOnNodes claims on the nodes each port of a protocol on which the class has claims. refused are those that a Service has.
func (r *classReconciler) claimOnNodes(
	ctx context.Context, front *stream.Front, s *proxyState, protocol v1beta1.Protocol,
) (refused map[stream.PortKey]*claim.HeldError, err error) {
	var mu sync.Mutex
	refused = map[stream.PortKey]*claim.HeldError{}
	group := errgroup.Group{}
	group.SetLimit(claimersAtOnce)
	for at := range s.claims {
		if at.Protocol() != protocol {
			continue
		}
		group.Go(func() error {
			port := stream.PortKey{Protocol: protocol, Port: at.Port()}
			held, err := r.claimFrontPort(ctx, front, port)
			if held != nil {
				mu.Lock()
				defer mu.Unlock()
				refused[port] = held
			}
			return err
		})
	}
	return refused, group.Wait()
}

// takenOnNodes tells of a port of a proxy on the nodes that a Service has there.
func takenOnNodes(problems refusal.Problems) string {
	return problems[0].Err.Detail + ": what comes for the port there does not reach the proxy; choose another, or have that one give it up"
}

// claimFrontPort claims what a port takes of what the front of a proxy shares. held says that somebody else has some of it.
func (b base) claimFrontPort(ctx context.Context, front *stream.Front, port stream.PortKey) (held *claim.HeldError, err error) {
	for _, point := range front.Points(port.Protocol, port.Port) {
		if held, err = b.claimFrontPoint(ctx, front, point); err != nil || held != nil {
			return held, err
		}
	}
	return nil, nil
}

// claimFrontPoint does the same with one point of the front.
func (b base) claimFrontPoint(
	ctx context.Context, front *stream.Front, point claim.Coordinate,
) (held *claim.HeldError, err error) {
	c, err := b.View.Claim(ctx, point.Name())
	if err == nil && c != nil && front.IsOwn(c) && claim.HolderOf(c).IsClass() {
		return nil, nil // that of another class on the nodes does, or they would take it from each other
	}
	if c == nil {
		listed, err := kube.Decide(ctx, b.View, func(f *kube.Facts) *v1beta1.EdgeClaim { return front.Listed(f, point) })
		switch {
		case err != nil:
			return nil, err
		case listed != nil: // the ledger was lost, and will know of it
			return &claim.HeldError{At: point, Claim: listed}, nil
		}
	}
	if front.Service != nil && point.IsNode() {
		c, err := kube.Decide(ctx, b.View, func(f *kube.Facts) *v1beta1.EdgeClaim { return loadbalancer.HeldOnNodes(f, point) })
		switch {
		case err != nil:
			return nil, err
		case c != nil && !front.IsOwn(c): // it may be that of a stream of a proxy that listens there
			return &claim.HeldError{At: point, Claim: c}, nil
		}
	}
	_, err = b.Ledger.Claim(ctx, front.Claimant(point), front.IsOwn, point)
	held, _ = errors.AsType[*claim.HeldError](err)
	return held, claim.IgnoreHeld(err)
}
