package adversary

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// What a failure tells of objects, each in one line.

// String tells what has become of an object.
func (c change) String() string {
	if c.object == nil {
		return "no object"
	}
	verb := "stored"
	if c.gone {
		verb = "deleted"
	}
	var text string
	switch object := c.object.(type) {
	case *corev1.Service:
		text = service(object)
	case *networkingv1.Ingress:
		text = ingress(object)
	case *v1beta1.StreamIngress:
		text = streamIngress(object)
	case *v1beta1.EdgeClaim:
		text = edgeClaim(object)
	case *corev1.ConfigMap:
		text = fmt.Sprintf("ConfigMap %s: %v", keyOf(object), object.Data)
	default:
		text = fmt.Sprintf("%s %s of generation %d", kindOf(object), keyOf(object), object.GetGeneration())
	}
	return fmt.Sprintf("%d %s %s: %s", c.version, c.seen.UTC().Format("15:04:05.000"), verb, text)
}

// edgeClaim is a claim in one line.
func edgeClaim(c *v1beta1.EdgeClaim) string {
	return fmt.Sprintf("EdgeClaim %s, of %s, version %d, renewed %v", c.Name, c.Spec.HeldBy, c.Spec.Holder.Generation, c.Spec.Renewed)
}

// service is a Service in one line.
func service(svc *corev1.Service) string {
	return fmt.Sprintf("Service %s, deleted %t, finalizers %v, type %s, ports %v, addresses %v, annotations %v, %d field managers",
		keyOf(svc), svc.DeletionTimestamp != nil, svc.Finalizers, svc.Spec.Type, portsOf(svc), listed(svc), svc.Annotations, len(svc.ManagedFields))
}

// ingress is an Ingress in one line.
func ingress(ing *networkingv1.Ingress) string {
	var serves []string
	for _, at := range exposure.PointsOf(ing) {
		serves = append(serves, at.Point())
	}
	return fmt.Sprintf("Ingress %s, deleted %t, finalizers %v, serves %v, annotations %v, owners %v, %d field managers",
		keyOf(ing), ing.DeletionTimestamp != nil, ing.Finalizers, serves, ing.Annotations, ing.OwnerReferences, len(ing.ManagedFields))
}

// streamIngress is a stream in one line.
func streamIngress(si *v1beta1.StreamIngress) string {
	listen := "any"
	if si.Spec.Listen != nil {
		listen = fmt.Sprint(*si.Spec.Listen)
	}
	return fmt.Sprintf("StreamIngress %s, generation %d, deleted %t, finalizers %v, %s %s to %s%s, status of generation %d: %d %v",
		keyOf(si), si.Generation, si.DeletionTimestamp != nil, si.Finalizers, si.ProtocolOrDefault(), listen,
		si.Spec.Upstream.Service, si.Spec.Upstream.Host, si.Status.ObservedGeneration, si.Status.Listen, conditions(si))
}

func conditions(si *v1beta1.StreamIngress) (all []string) {
	for _, c := range si.Status.Conditions {
		all = append(all, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return all
}
