package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// serveGateway writes the listeners that the streams of a class need on its Gateway, and reports on the class. Their routes are left to
// routeReconciler, which is told of a listener by its ListenerSet.
func (r *classReconciler) serveGateway(ctx context.Context, class *v1beta1.StreamIngressClass) (reconcile.Result, error) {
	began := time.Now()
	r.View.Gateways.Ask()
	state, err := r.View.Gateways.State(ctx, class)
	if err != nil {
		return reconcile.Result{}, err
	}
	var pass listenerPass
	if len(state.Missing) == 0 && len(state.Unread) == 0 {
		if pass, err = r.programListeners(ctx, class, state.Gateway); err != nil {
			r.pacer.done(class.Name, pass.wrote, time.Since(began))
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
				return reconcile.Result{RequeueAfter: paceFirst}, nil // somebody else has written, the cache will show it
			}
			return reconcile.Result{}, err
		}
	}
	if len(state.Unread) > 0 && state.UnreadFor < unreadPatience {
		r.pacer.done(class.Name, false, time.Since(began))
		return reconcile.Result{RequeueAfter: unread}, nil // what the class says is as true as it was
	}
	wrote, err := r.reportGateway(ctx, class, state, slices.Concat(pass.refused, r.refusedHere(ctx, class)))
	r.pacer.done(class.Name, pass.wrote || wrote, time.Since(began))
	if err != nil {
		return watch.Later(err)
	}
	if len(state.Unread) > 0 {
		pass.retry(unread)
	}
	return reconcile.Result{RequeueAfter: pass.again()}, nil
}

// unreadPatience is for how long a class says nothing of kinds that are yet to be read: a process that begins has read none.
const unreadPatience = 20 * time.Second

// listenerPass is what became of the listeners of a class.
type listenerPass struct {
	classReport
	// full says why the API server takes no more ListenerSets, empty for nothing.
	full string
}

// programListeners enters what is foreign on a Gateway into the ledger, and writes the ListenerSets of a class. gateway is nil where
// there is none: the listeners are there when it comes.
func (r *classReconciler) programListeners(
	ctx context.Context, class *v1beta1.StreamIngressClass, gateway *gatewayv1.Gateway,
) (pass listenerPass, err error) {
	claims, err := r.View.Claims.OfClass(ctx, class.Name)
	if err != nil {
		return pass, err
	}
	foreign := map[stream.PortKey]claim.Claimant{}
	if gateway != nil {
		if foreign, err = r.enterListeners(ctx, class, gateway, claims); err != nil {
			return pass, fmt.Errorf("entering the foreign listeners of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
		}
	}
	granted, err := kube.Decide(ctx, r.View, func(f *kube.Facts) map[claim.Coordinate]*v1beta1.StreamIngress {
		return grantsOf(f, &proxyState{proxy: &proxy{class: class}, claims: claims}).granted
	})
	if err != nil {
		return pass, err
	}
	wanted := map[stream.PortKey]stream.Listener{}
	for at, si := range granted {
		port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
		wanted[port] = stream.Listener{Port: port, Namespace: si.UpstreamNamespace()}
	}
	return r.writeListeners(ctx, class, wanted, foreign)
}

// enterListeners makes sure that every listener on a Gateway that Portcullis has not made for a class has a claim. It returns who has them.
func (r *classReconciler) enterListeners(
	ctx context.Context, class *v1beta1.StreamIngressClass, gateway *gatewayv1.Gateway, claims map[claim.Coordinate]*v1beta1.EdgeClaim,
) (map[stream.PortKey]claim.Claimant, error) {
	foreign, err := r.View.Gateways.ForeignListeners(ctx, class.Name, gateway)
	if err != nil {
		return nil, err
	}
	for port, by := range foreign {
		if err := r.enter(ctx, claim.Stream(class.Name, port.Protocol, port.Port), claims, by); err != nil {
			return nil, err
		}
	}
	return foreign, nil
}

// writeListeners writes what differs of the ListenerSets of a class. A listener stays for as long as a route leads from it: implementations
// are to see routes come after their listener, and go before it.
func (r *classReconciler) writeListeners(
	ctx context.Context, class *v1beta1.StreamIngressClass, wanted map[stream.PortKey]stream.Listener,
	foreign map[stream.PortKey]claim.Claimant,
) (pass listenerPass, err error) {
	sets, names, err := r.View.Gateways.ListenersIn(ctx, class)
	if err != nil {
		return pass, err
	}
	var here []stream.StoredSet
	byName := map[string]*gatewayv1.ListenerSet{}
	stands, all := map[stream.PortKey]bool{}, map[stream.PortKey]stream.Listener{}
	for _, set := range sets {
		if set.DeletionTimestamp != nil {
			continue
		}
		stored := stream.StoredSetOf(set, *class.Spec.Gateway)
		byName[set.Name], here = set, append(here, stored)
		for _, l := range stored.Listeners {
			stands[l.Port] = true
		}
		kept, again, err := r.standing(ctx, set, slices.DeleteFunc(slices.Clone(stored.Listeners), func(l stream.Listener) bool {
			_, isWanted := wanted[l.Port]
			return isWanted
		}))
		if err != nil {
			return pass, err
		}
		pass.retry(again)
		for _, l := range kept {
			all[l.Port] = l
		}
	}
	if err := r.leaveTaken(ctx, class, wanted, stands, foreign, &pass); err != nil {
		return pass, err
	}
	maps.Copy(all, wanted)
	if err := r.keepUntilRouted(ctx, class, here, all, &pass); err != nil {
		return pass, err
	}
	for _, planned := range stream.PlanListeners(class.Name, here, slices.Collect(maps.Values(all)), names...) {
		if planned.Changed {
			err = errors.Join(err, r.writeSet(ctx, class, byName[planned.Name], planned, &pass))
		}
	}
	return pass, err
}

// leaveTaken claims what ports take of what the Gateway shares with others, and leaves out of what is wanted those that don't stand yet and
// of which somebody else has any, or has a listener: in a set that is older, one of ours would take the port from them.
func (r *classReconciler) leaveTaken(
	ctx context.Context, class *v1beta1.StreamIngressClass, wanted map[stream.PortKey]stream.Listener, stands map[stream.PortKey]bool,
	foreign map[stream.PortKey]claim.Claimant, pass *listenerPass,
) error {
	front, err := r.frontOf(ctx, class)
	if err != nil {
		return err
	}
	for port := range wanted {
		held, err := r.claimFrontPort(ctx, front, port)
		if err != nil {
			return err
		}
		by, isForeign := foreign[port]
		switch {
		case stands[port]:
			continue
		case isForeign:
			pass.refuse(port, v1beta1.ReasonListenerConflicted,
				fmt.Sprintf("%s has a listener on the port: have it taken off, or take another port", by))
		case held != nil:
			pass.refuse(port, v1beta1.ReasonPortRefused,
				front.Refused(r.View.LoadBalancers.ReservedNodePorts, held.At, held.Claim)[0].Err.Detail)
		default:
			continue
		}
		delete(wanted, port)
	}
	return nil
}

// refusedHere are the ports of a class that could not be opened, of those that somebody has a claim on, as far as that can be told.
func (r *classReconciler) refusedHere(ctx context.Context, class *v1beta1.StreamIngressClass) []v1beta1.RefusedPort {
	return slices.DeleteFunc(r.refused.list(class), func(p v1beta1.RefusedPort) bool {
		c, err := r.View.Claim(ctx, claim.Stream(class.Name, p.Protocol, p.Port).Name())
		return err == nil && c == nil
	})
}

// reportGateway writes the status of a class with a Gateway, if it changed.
func (r *classReconciler) reportGateway(
	ctx context.Context, class *v1beta1.StreamIngressClass, state stream.GatewayState, refused []v1beta1.RefusedPort,
) (wrote bool, err error) {
	problems := state.Problems(class)
	programmed := metav1.Condition{Type: v1beta1.ConditionProgrammed, Status: metav1.ConditionTrue,
		Reason: v1beta1.ReasonProgrammed, Message: "the controller of the Gateway has been told about every stream"}
	slices.SortStableFunc(refused, compareRefused)
	refused = slices.CompactFunc(refused, func(a, b v1beta1.RefusedPort) bool { return compareRefused(a, b) == 0 })
	switch {
	case len(problems) > 0:
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, problems[0].Reason, report.Text(problems)
	case len(refused) > 0:
		programmed = someRefused(refused, 0)
	}
	next := class.DeepCopy()
	if len(state.Unread) == 0 { // else nobody knows
		next.Status.Addresses = stream.GatewayAddresses(state.Gateway)
	}
	return r.writeStatusOf(ctx, class, next, refused, servesStreams(), programmed)
}
