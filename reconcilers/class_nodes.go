package reconcilers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/rules"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// claimersAtOnce is how many ports of the nodes are claimed side by side. There are many when the first pool of the nodes'
// addresses is made.
const claimersAtOnce = 8

// claimNodes claims on the nodes the ports of a proxy that is there, as its class has no Service, and leaves out of what is
// wanted those that a Service has: kube-proxy takes their traffic. What stands in the ConfigMap stays.
func (r *classReconciler) claimNodes(
	ctx context.Context, class *v1beta1.StreamIngressClass, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) error {
	if class.Spec.Service != nil {
		return nil
	}
	front, err := rules.FrontOf(ctx, r.view, class)
	if err != nil || front == nil {
		return err
	}
	var mu sync.Mutex
	refused := map[int32]*claim.HeldError{}
	group := errgroup.Group{}
	group.SetLimit(claimersAtOnce)
	take := func(port int32) {
		group.Go(func() error {
			held, err := r.claimFrontPort(ctx, front, stream.PortKey{Protocol: cm.protocol, Port: port})
			if held != nil {
				mu.Lock()
				defer mu.Unlock()
				refused[port] = held
			}
			return err
		})
	}
	for port := range wanted {
		take(port)
	}
	for port := range cm.standing.Foreign {
		if _, isWanted := wanted[port]; !isWanted {
			take(port)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for port, held := range refused {
		entry, isWanted := wanted[port]
		if !isWanted || cm.standing.Data[stream.Key(port)] == entry.String() {
			continue
		}
		delete(wanted, port)
		key := stream.PortKey{Protocol: cm.protocol, Port: port}
		report.refuse(key, v1beta1.ReasonPortRefused, fmt.Sprintf("the proxy is on the nodes, and %s is %s", key, held))
	}
	return nil
}

// claimFrontPort claims what a port takes of what the front of a proxy shares. held says that somebody else has some of it.
func (b base) claimFrontPort(ctx context.Context, front *rules.Front, port stream.PortKey) (held *claim.HeldError, err error) {
	for _, point := range front.Points(port.Protocol, port.Port) {
		if c, err := b.view.Claim(ctx, point.Name()); err == nil && c != nil && front.IsOwn(c) && claim.HolderOf(c).IsClass() {
			continue // that of another class on the nodes does, or they would take it from each other
		}
		if _, err := b.ledger.Claim(ctx, point, front.Claimant(), front.IsOwn); errors.As(err, &held) {
			return held, nil
		} else if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
