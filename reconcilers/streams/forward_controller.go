package streams

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// forwardReconciler has the kernel of the nodes forward the ports of classes with an addressPool: each port has a Service of its
// own. The unit of work is the port, told by the name of the claim on it, so that what one stream costs does not grow with the others;
// a request with a namespace is for a Service, of which it has yet to be found out whether it is that of a port.
type forwardReconciler struct {
	base
	refused    *refusedDoors
	clusterIPs *clusterIPs
	// ports locks each port: a claim on it is not released between the look at it and the write that opens the port.
	ports *kube.KeyMutex[claim.Coordinate]
}

// forwarders is how many ports are looked at at once: each takes three writes.
const forwarders = 8

// unread is how long to wait for EndpointSlices that are being read.
const unread = time.Second

// door is a port of a class, as it is now.
type door struct {
	class *v1beta1.StreamIngressClass
	at    claim.Coordinate
	port  stream.PortKey
	key   types.NamespacedName
	// service is nil where there is none.
	service *corev1.Service
}

// +kubebuilder:rbac:groups="",resources=services/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// Reconcile forwards one port to where its stream leads, or to nowhere.
func (r *forwardReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != "" {
		return r.find(ctx, req.NamespacedName)
	}
	at, err := claim.Parse(req.Name)
	if err != nil || !at.IsStream() {
		return reconcile.Result{}, nil //nolint:nilerr // a claim that Portcullis has not written
	}
	return r.forward(ctx, at)
}

// forward does so with a port, which is locked meanwhile.
func (r *forwardReconciler) forward(ctx context.Context, at claim.Coordinate) (reconcile.Result, error) {
	unlock, err := r.ports.Lock(ctx, at)
	if err != nil {
		return reconcile.Result{}, err
	}
	defer unlock()
	class, err := r.View.Class(ctx, at.Class())
	if err != nil || class == nil || class.Spec.AddressPool == nil {
		return reconcile.Result{}, err
	}
	d := &door{class: class, at: at, port: stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}}
	d.key = kube.ServiceKey(class, d.port)
	if d.service, err = r.View.Service(ctx, d.key); err != nil {
		return reconcile.Result{}, err
	}
	si, err := r.grantedAt(ctx, class, at)
	if err != nil {
		return laterUnread(err)
	}
	if si == nil {
		r.refused.clear(d)
		return r.close(ctx, d.key, d.service)
	}
	return r.open(ctx, d, si)
}

// open writes what a port needs: its Service, then the EndpointSlices, then the addresses, which the nodes forward from then on.
func (r *forwardReconciler) open(ctx context.Context, d *door, si *v1beta1.StreamIngress) (reconcile.Result, error) {
	addresses := stream.ClassAddresses(d.class)
	if len(addresses) == 0 && d.service == nil {
		r.refused.clear(d)
		return reconcile.Result{}, nil // the status of the class says why, and its change brings the port back here
	}
	if d.service != nil && !kube.IsForwarded(d.service) {
		return r.refused.refuse(d, v1beta1.ReasonServiceNameTaken, fmt.Sprintf(
			"the stream needs a Service %s, and one of that name exists that Portcullis has not made: delete it", d.key))
	}
	addresses, held, err := r.claimFront(ctx, d, addresses)
	if err != nil {
		return watch.Later(err)
	}
	if len(held) > 0 && len(addresses) == 0 {
		r.refused.set(d, v1beta1.ReasonPortRefused, held[0].Err.Detail)
		result, err := r.close(ctx, d.key, d.service)
		result.RequeueAfter = cmp.Or(result.RequeueAfter, watch.RefusedRetry)
		return result, err
	}
	mirrored, known, err := r.View.Mirror(ctx, d.class, si, d.at)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !known {
		return reconcile.Result{RequeueAfter: unread}, nil
	}
	switch err := r.write(ctx, d, addresses, mirrored); {
	case err == nil && len(held) > 0: // the claim that goes brings the port back here
		return r.refused.refuse(d, v1beta1.ReasonPortRefused, fmt.Sprintf("the port is open at %s only: %s", addresses[0], held[0].Err.Detail))
	case err == nil:
		r.refused.clear(d)
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	default:
		return r.failed(d, err)
	}
}

// claimFront claims what the port takes of the addresses that the class shares. It returns those of the addresses at which the port may
// be open; problems say who has it at the others. A class may come to share another one after its streams were opened: that somebody has
// a port there closes none where it is open.
func (r *forwardReconciler) claimFront(
	ctx context.Context, d *door, addresses []netip.Addr,
) (open []netip.Addr, problems refusal.Problems, err error) {
	front, err := r.frontOf(ctx, d.class)
	if err != nil || front == nil {
		return addresses, nil, err
	}
	open = slices.Clone(addresses)
	for _, point := range front.Points(d.port.Protocol, d.port.Port) {
		held, err := r.claimFrontPoint(ctx, front, point)
		if err != nil {
			return nil, nil, err
		}
		if held != nil {
			problems = append(problems, front.Refused(r.View.LoadBalancers.ReservedNodePorts, held.At, held.Claim)...)
			open = slices.DeleteFunc(open, func(ip netip.Addr) bool { return ip == point.Address() })
		}
	}
	return open, problems, nil
}

// close takes away what forwards a port: the Service first, and with it the door; then the EndpointSlices, which the garbage
// collector would have, too.
func (r *forwardReconciler) close(ctx context.Context, key types.NamespacedName, svc *corev1.Service) (reconcile.Result, error) {
	if svc != nil && (!kube.IsForwarded(svc) || svc.DeletionTimestamp != nil) {
		return reconcile.Result{}, nil
	}
	mirrors, err := r.View.Streams.Mirrors(ctx, key)
	if err != nil || svc == nil && len(mirrors) == 0 {
		return reconcile.Result{}, err
	}
	if svc == nil {
		if _, err := r.Kinds.Check(ctx); err != nil {
			return reconcile.Result{}, err
		}
		return watch.Later(r.removeMirrors(ctx, mirrors))
	}
	keep, err := r.mayClose(ctx, svc)
	if err == nil && keep > 0 {
		var taken bool
		if taken, err = r.isTaken(ctx, svc); taken {
			keep = 0
		}
	}
	if err != nil || keep > 0 {
		return reconcile.Result{RequeueAfter: keep}, err
	}
	return watch.Later(r.removeService(ctx, svc))
}

// isTaken says whether somebody else than its class has claimed where a Service is open: what a former installation has left is kept
// open for a while, and its claims are gone.
func (r *forwardReconciler) isTaken(ctx context.Context, svc *corev1.Service) (bool, error) {
	class, _, _ := kube.ForwardedPort(svc)
	for _, at := range kube.OpenAt(svc) {
		c, err := r.View.Claim(ctx, at.Name())
		if err != nil {
			return false, err
		}
		if c != nil && claim.HolderOf(c) != claim.ClassHolder(class) {
			return true, nil
		}
	}
	return false, nil
}

// find finds the port whose Service this is, or was. One that is none's goes: that of a class that is gone, or writes elsewhere by now.
func (r *forwardReconciler) find(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	class, port, err := r.View.PortAt(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if class != nil {
		return r.Reconcile(ctx, watch.ForName(claim.Stream(class.Name, port.Protocol, port.Port).Name()))
	}
	svc, err := r.View.Service(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.close(ctx, key, svc)
}
