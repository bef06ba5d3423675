package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// routeReconciler writes the routes of classes with a Gateway: each port has one, beside the Service that its stream leads to. The unit of
// work is the port, told by the name of the claim on it; a request with a namespace also looks at the route of the port there.
//
// What is written in namespaces of tenants is recorded in the claim before, so that it is taken out again whatever became of labels, of
// the stream, or of the class, also after Portcullis was away. The claim stays until no route is there.
type routeReconciler struct {
	base
	refused *refusedDoors
	// ports locks each port: a claim on it is not released between the look at it and the write that opens the port.
	ports *kube.KeyMutex[claim.Coordinate]
}

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;gatewayclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=listenersets;tcproutes;udproutes,verbs=get;list;watch;create;patch;delete

// Reconcile writes the route of one port, and takes out those that it is not to have.
func (r *routeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	at, err := claim.Parse(req.Name)
	if err != nil || !at.IsStream() {
		return reconcile.Result{}, nil // a claim that Portcullis has not written
	}
	unlock, err := r.ports.Lock(ctx, at)
	if err != nil {
		return reconcile.Result{}, err
	}
	defer unlock()
	class, err := r.View.Class(ctx, at.Class())
	if err != nil {
		return reconcile.Result{}, err
	}
	c, err := r.View.Claim(ctx, at.Name())
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, keeps, err := r.wanted(ctx, class, at)
	if err != nil {
		return laterUnread(err)
	}
	written, err := r.route(ctx, class, c, at, wanted)
	isRefused := class != nil && refusalOf(class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}) != nil
	if err == nil && written.IsZero() && wanted != nil && !wanted.IsOpen && !isRefused {
		return written, nil // the listener is about to be opened to it, which brings the port back here; those elsewhere serve until then
	}
	removed, errOthers := r.removeOthers(ctx, at, routedIn(c, req), keeps)
	if errOthers != nil {
		removed, errOthers = laterUnread(errOthers)
	}
	written.RequeueAfter = watch.Soonest(written.RequeueAfter, removed.RequeueAfter)
	return written, errors.Join(err, errOthers)
}

// route writes the route that a port is to have, if any. c is the claim on the port.
func (r *routeReconciler) route(
	ctx context.Context, class *v1beta1.StreamIngressClass, c *v1beta1.EdgeClaim, at claim.Coordinate, wanted *stream.Route,
) (reconcile.Result, error) {
	if class == nil || class.Spec.Gateway == nil {
		return reconcile.Result{}, nil
	}
	d := &door{class: class, at: at, port: stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}}
	if wanted == nil {
		r.refused.clear(d)
		return reconcile.Result{}, nil
	}
	if c == nil { // it is newer than the look at it
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	}
	d.key = wanted.Key
	return r.write(ctx, d, c, *wanted)
}

// laterUnread ends a look that has failed. One that met a kind which is yet to be read, or a cache that is behind, is done again a moment
// later.
func laterUnread(err error) (reconcile.Result, error) {
	if errors.Is(err, errBehind) {
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	}
	if kube.IsUnread(err) {
		return reconcile.Result{RequeueAfter: unread}, nil
	}
	return reconcile.Result{}, err
}

// routedIn are the namespaces where a port may have a route: those that its claim names, and the one that a request does.
func routedIn(c *v1beta1.EdgeClaim, req reconcile.Request) (namespaces []string) {
	if c != nil {
		namespaces = slices.Clone(c.Spec.RouteNamespaces)
	}
	if req.Namespace != "" && !slices.Contains(namespaces, req.Namespace) {
		namespaces = append(namespaces, req.Namespace)
	}
	return namespaces
}

// wanted is the route that a port is to have, nil for none, or while its listener is not there. keeps is the namespace where one may stay
// as it is.
func (r *routeReconciler) wanted(
	ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) (route *stream.Route, keeps string, err error) {
	if class == nil || class.Spec.Gateway == nil {
		return nil, "", nil
	}
	si, err := r.grantedAt(ctx, class, at)
	if err != nil || si == nil {
		return nil, "", err
	}
	keeps = si.UpstreamNamespace()
	number, err := r.backendPort(ctx, si)
	if err != nil || number == 0 {
		return nil, keeps, err
	}
	set, err := r.View.Gateways.ListenerSetOf(ctx, class, at)
	if err != nil || set == nil {
		return nil, keeps, err
	}
	route = routeOf(si, at, set, number)
	l, ok := stream.ListenerIn(set, route.Port)
	if !ok {
		return nil, keeps, nil
	}
	route.IsOpen = l.Namespace == keeps
	return route, keeps, nil
}

// routeOf is the route of a stream that has a listener in a ListenerSet, to a port of its Service.
func routeOf(si *v1beta1.StreamIngress, at claim.Coordinate, set *gatewayv1.ListenerSet, number int32) *stream.Route {
	return &stream.Route{
		Port: stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}, Key: kube.RouteKey(at, si.UpstreamNamespace()),
		Set: client.ObjectKeyFromObject(set), Service: si.UpstreamService(), ServicePort: number,
	}
}

// backendPort is the number of the port of a Service that a stream leads to, 0 while it is not known, or the Service is not the one that
// an outside upstream needs. One that is named by its number need not be there.
func (b base) backendPort(ctx context.Context, si *v1beta1.StreamIngress) (int32, error) {
	svc, err := b.View.Service(ctx, types.NamespacedName{Namespace: si.UpstreamNamespace(), Name: si.UpstreamService()})
	switch {
	case err != nil:
		return 0, err
	case si.Outside() && (svc == nil || !metav1.IsControlledBy(svc, si)):
		return 0, nil
	case svc != nil:
		if number, found := stream.UpstreamPort(si, svc); found {
			return number, nil
		}
	}
	if si.Spec.Upstream.Port.Type == intstr.Int {
		return si.Spec.Upstream.Port.IntVal, nil
	}
	return 0, nil
}

// removeOthers takes out the routes of a port in all namespaces but the one where it may have one.
func (r *routeReconciler) removeOthers(
	ctx context.Context, at claim.Coordinate, namespaces []string, but string,
) (result reconcile.Result, err error) {
	for _, ns := range namespaces {
		if ns == but {
			continue
		}
		route, err := r.View.Gateways.Route(ctx, at.Protocol(), kube.RouteKey(at, ns))
		if err != nil {
			return result, err
		}
		if route == nil || !kube.IsRoute(route) || route.GetDeletionTimestamp() != nil {
			continue
		}
		keep, err := r.mayClose(ctx, route)
		if err != nil {
			return result, err
		}
		if keep > 0 {
			result.RequeueAfter = keep
			continue
		}
		if err := write.Remove(ctx, r.Writer, route); err != nil {
			if result, err = watch.Later(err); err != nil {
				return result, err
			}
		}
	}
	return result, nil
}

// write records where the route of a port is about to be, and writes it where it differs.
func (r *routeReconciler) write(ctx context.Context, d *door, c *v1beta1.EdgeClaim, wanted stream.Route) (reconcile.Result, error) {
	kind := stream.RouteKind(d.port.Protocol)
	stored, err := r.View.Gateways.Route(ctx, d.port.Protocol, d.key)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case stored != nil && !kube.IsRoute(stored):
		return r.refused.refuse(d, v1beta1.ReasonRouteNameTaken, fmt.Sprintf(
			"the stream needs a %s %s, and one of that name exists that Portcullis has not made: delete it", kind, d.key))
	case stored != nil && stored.GetDeletionTimestamp() != nil: // its end brings the port back here before, if it still says whose it is
		return r.refused.refuse(d, v1beta1.ReasonRouteNameTaken, fmt.Sprintf(
			"%s %s is being deleted, and its finalizers keep it: the stream gets another one when it is gone", kind, d.key))
	case stored != nil && slices.Contains(c.Spec.RouteNamespaces, d.key.Namespace) && wanted.IsWritten(stored) &&
		stored.GetLabels()[v1beta1.LabelClass] == d.class.Name:
		r.refused.clear(d)
		return reconcile.Result{}, nil
	}
	if err = r.record(ctx, c, d.key.Namespace); err == nil {
		if stored == nil {
			route := wanted.Object()
			route.SetLabels(map[string]string{v1beta1.LabelClass: d.class.Name})
			err = write.Create(ctx, r.Writer, route)
		} else {
			next := wanted.Over(stored)
			next.SetLabels(map[string]string{v1beta1.LabelClass: d.class.Name}) // of others the cache keeps none, and the patch leaves them
			err = write.Change(ctx, r.Writer, stored, next)
		}
	}
	switch {
	case err == nil:
		r.refused.clear(d)
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, errClaimGone), errors.Is(err, errClaimFull):
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	case !write.IsRefusal(err):
		return reconcile.Result{}, err
	}
	return r.refused.refuse(d, v1beta1.ReasonRouteRefused, fmt.Sprintf("%s %s: %s", kind, d.key, err))
}

// errClaimGone says that a port is nobody's any longer.
var errClaimGone = errors.New("the claim is gone")

// errClaimFull says that routes of a port are left in too many namespaces: they go first.
var errClaimFull = errors.New("the claim names too many namespaces")

// mostNamespaces is how many namespaces a claim can name.
const mostNamespaces = 8

// record has the claim on a port say that a namespace has, or is about to have, a route of it. Those where none is any longer are
// forgotten.
func (r *routeReconciler) record(ctx context.Context, c *v1beta1.EdgeClaim, namespace string) error {
	if slices.Contains(c.Spec.RouteNamespaces, namespace) {
		return nil
	}
	at, err := claim.Of(c)
	if err != nil {
		return err
	}
	namespaces := []string{namespace}
	for _, ns := range c.Spec.RouteNamespaces {
		there, err := r.View.Gateways.HasRoute(ctx, r.Live, at, []string{ns})
		if err != nil {
			return err
		}
		if there {
			namespaces = append(namespaces, ns)
		}
	}
	if len(namespaces) > mostNamespaces {
		return errClaimFull
	}
	slices.Sort(namespaces)
	if err = r.Ledger.Route(ctx, c, namespaces); apierrors.IsNotFound(err) {
		return errClaimGone
	}
	return err
}
