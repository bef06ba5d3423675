package adversary

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// lawsOfIngresses are about hosts and paths. Who makes an Ingress by hand is asked by nobody, so that two of those may serve one
// path; what is given to Services is Portcullis' to answer for.
var lawsOfIngresses = []law{
	{"what an Ingress serves is not released", false, notReleasedWhileServed},
	{"what an Ingress serves is given to no Service", false, notGivenAway},
	{"a Service keeps the path that it asks for", false, keepsItsPath},
}

// released is the point of a claim on a path that its holder has no longer, and that holder.
func released(now *moment, before client.Object) (claim.Coordinate, claim.Holder, bool) {
	was, ok := before.(*v1beta1.EdgeClaim)
	if !ok {
		return claim.Coordinate{}, claim.Holder{}, false
	}
	at := pointOfClaim(was)
	// A Service may take over from the Ingress of its name.
	return at, claim.HolderOf(was), at.IsHTTP() && now.holder(at).Key() != claim.HolderOf(was).Key()
}

func notReleasedWhileServed(now *moment, _ change, before client.Object) error {
	at, holder, is := released(now, before)
	ing := now.ingresses[holder.Key()]
	if !is || ing == nil || !slices.Contains(exposure.PointsOf(ing), at) {
		return nil
	}
	return fmt.Errorf("%s is now held by %s, and it was that of %s, whose Ingress serves it: %s", at.Point(), now.heldBy(at), holder, ingress(ing))
}

func keepsItsPath(now *moment, _ change, before client.Object) error {
	at, holder, is := released(now, before)
	svc := now.services[holder.Key()]
	if !is || !holder.IsService() || svc == nil || svc.DeletionTimestamp != nil || !slices.Contains(pathsOf(svc), at) {
		return nil
	}
	return fmt.Errorf("%s is now held by %s, and %s asks for it: %s", at.Point(), now.heldBy(at), holder, service(svc))
}

// pathsOf are the points that a Service asks for. All tenants say which host and path.
func pathsOf(svc *corev1.Service) []claim.Coordinate {
	value, asks := exposure.Annotation(svc)
	if !asks {
		return nil
	}
	e, errs := exposure.Parse(value)
	if len(errs) > 0 {
		return nil
	}
	return e.Points()
}

// known is how long it may take until all replicas have seen what is stored. It is well below a second where the machine does
// nothing else.
const known = time.Minute

func notGivenAway(now *moment, c change, before client.Object) error {
	made, ok := c.object.(*v1beta1.EdgeClaim)
	if !ok || c.gone || !claim.HolderOf(made).IsService() {
		return nil
	}
	at := pointOfClaim(made)
	was, had := before.(*v1beta1.EdgeClaim)
	if !at.IsHTTP() || had && claim.HolderOf(was).Key() == claim.HolderOf(made).Key() {
		return nil
	}
	for key, points := range now.served {
		if since, serves := points[at]; serves && key != claim.HolderOf(made).Key() && c.seen.Sub(since) > known {
			return fmt.Errorf("%s is given to %s, and has been served for %v by %s", at.Point(), made.Spec.HeldBy,
				c.seen.Sub(since).Round(time.Second), ingress(now.ingresses[key]))
		}
	}
	return nil
}
