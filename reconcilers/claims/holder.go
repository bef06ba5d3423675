package claims

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// holderReading is one look at a holder, for all of its claims.
type holderReading struct {
	view   *kube.View
	reader client.Reader
	holder claim.Holder
	// held are the points of its claims, but for those that are for external IPs alone, in ascending order.
	held []claim.Coordinate
	// stream, service and ingress are the objects of the holder's name that its claims may be about, nil for none.
	stream  *v1beta1.StreamIngress
	service *corev1.Service
	ingress *networkingv1.Ingress
	// entries are the points under which the ledger has what the Ingress serves, in ascending order.
	entries []claim.Coordinate
	// graceLeft is how long the ledger keeps a claim if its holder is gone.
	graceLeft func(*v1beta1.EdgeClaim) time.Duration
	// olderReplicas says that replicas run which claim hosts and paths for all IngressClasses at once.
	olderReplicas bool
	// classes are those that name the Service as the one in front of their proxy; of a class, all without one.
	classes []*v1beta1.StreamIngressClass
	// isLive says that reader is past the cache. stored is what a namespace uses that holds host names or paths; by the cache, that is the
	// paths of its routes alone.
	isLive bool
	stored kube.Stored
	// known are the names of all classes, and gateways those of the ones with a Gateway.
	known, gateways sets.Set[string]
}

// readHolder reads the holder of some claims by reader.
func (r *claimReconciler) readHolder(
	ctx context.Context, reader client.Reader, holder claim.Holder, claims []*v1beta1.EdgeClaim,
) (s *holderReading, err error) {
	_, isLive := reader.(kube.SlimReader)
	s = &holderReading{view: r.View, reader: reader, holder: holder, isLive: isLive, graceLeft: r.Ledger.GraceLeft}
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil && !c.Spec.ExternalIP {
			s.held = append(s.held, at)
		}
	}
	slices.SortFunc(s.held, claim.Compare)
	switch {
	case holder.IsStream():
		s.stream, err = readObject[v1beta1.StreamIngress](ctx, s, holder.Key())
		return s, err
	case holder.IsNamespace():
		err = s.readNamespace(ctx)
		return s, err
	}
	// Before the Service: until it is gone, an Ingress that serves what it asked for is on its way.
	if slices.ContainsFunc(s.held, claim.Coordinate.IsHTTP) {
		if s.ingress, err = readObject[networkingv1.Ingress](ctx, s, holder.Key()); err != nil {
			return nil, err
		}
		if s.ingress != nil {
			s.entries = exposure.EntriesOf(s.ingress, s.view.Ingresses.MaxHTTPPoints)
		}
		s.olderReplicas = s.view.Ingresses.OlderReplicas(ctx)
	}
	switch {
	case holder.IsClass() && slices.ContainsFunc(s.held, claim.Coordinate.IsNode):
		err = s.readClasses(ctx, (*v1beta1.StreamIngressClass).OnNodes)
	case holder.IsService():
		err = s.readService(ctx)
	}
	return s, err
}

// olderReplicasStay is how long until it is asked again whether older replicas are gone.
const olderReplicasStay = 10 * time.Second

// lookAgain is when to look at claims again that the holder wants, 0 for never: some may be for older replicas alone.
func (s *holderReading) lookAgain() time.Duration {
	if s.olderReplicas {
		return olderReplicasStay
	}
	return 0
}

// readService reads a Service, and, where it has what it may share, the classes that name it, whether it exists or not.
func (s *holderReading) readService(ctx context.Context) error {
	service, err := readObject[corev1.Service](ctx, s, s.holder.Key())
	if s.service = service; err != nil || len(loadbalancer.Own(s.held)) == 0 {
		return err
	}
	return s.readClasses(ctx, func(class *v1beta1.StreamIngressClass) bool {
		ref := class.Spec.Service
		return ref != nil && ref.Namespace == s.holder.Namespace && ref.Name == s.holder.Name
	})
}

// readClasses finds the classes that are meant, and which others there are. They are read as the holder is: who
// has admitted a stream may know of a change of its class that a cache does not show, and counts on what that gives the holder.
func (s *holderReading) readClasses(ctx context.Context, isMeant func(*v1beta1.StreamIngressClass) bool) error {
	classes, err := kube.ClassesOf(ctx, s.reader)
	s.known, s.gateways = sets.New[string](), sets.New[string]()
	for i := range classes {
		s.known.Insert(classes[i].Name)
		if classes[i].Spec.Gateway != nil {
			s.gateways.Insert(classes[i].Name)
		}
		if isMeant(&classes[i]) {
			s.classes = append(s.classes, &classes[i])
		}
	}
	return err
}

// read reads an object; found is false when there is none.
func (s *holderReading) read(ctx context.Context, key types.NamespacedName, obj client.Object) (found bool, err error) {
	err = s.reader.Get(ctx, key, obj)
	return err == nil, client.IgnoreNotFound(err)
}

// readObject reads an object of a kind; nil when there is none.
func readObject[T any, O interface {
	*T
	client.Object
}](ctx context.Context, s *holderReading, key types.NamespacedName) (O, error) {
	obj := O(new(T))
	found, err := s.read(ctx, key, obj)
	if !found {
		return nil, err
	}
	return obj, nil
}

// wants says whether the holder of a claim is there, and wants its point.
func (s *holderReading) wants(ctx context.Context, c *v1beta1.EdgeClaim) (claim.HolderState, error) {
	at, err := claim.Of(c)
	switch {
	case err != nil:
		return claim.HolderState{Exists: true, Wants: true}, nil //nolint:nilerr // not ours to judge
	case at.IsRoutePath():
		return s.routePathWants(c, at), nil
	case at.IsListener():
		return s.listenerWants(ctx, at)
	case at.IsRoute():
		return s.routeWants(ctx, at)
	case at.IsHostname():
		return s.hostnameWants(ctx, c, at)
	case at.IsHTTP():
		return s.httpWants(ctx, at)
	case !at.IsStream():
		return s.loadBalancerWants(ctx, c, at)
	case !s.holder.IsStream():
		return s.foreignWants(ctx, c, at)
	default:
		return s.streamWants(ctx, c, at)
	}
}
