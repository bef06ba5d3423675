package loadbalancer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// RequestOf is what a Service of type LoadBalancer requests, with what is wrong with that.
func RequestOf(svc *corev1.Service) (Request, refusal.Problems) {
	request, errs := Read(svc)
	problems := make(refusal.Problems, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalidRequest, Err: err})
	}
	return request, problems
}

// IsPending says whether problems are such as time may solve: a Service may wait for a pool, an address or a node, or until it no longer
// hands over what it has.
func IsPending(p refusal.Problems) bool {
	return !slices.ContainsFunc(p, func(problem refusal.Problem) bool {
		return problem.Reason != v1beta1.ReasonNoAddressPool && problem.Reason != v1beta1.ReasonNoFreeAddress &&
			problem.Reason != v1beta1.ReasonNoReadyNode && problem.Reason != v1beta1.ReasonHandedOver
	})
}

// RefusedPorts are those of the ports of a Service that problems are about, with the reason of each.
func RefusedPorts(p refusal.Problems, ports []Port) map[Port]string {
	refused := map[Port]string{}
	for i, port := range ports {
		path := PortPath(i).String()
		for _, problem := range p {
			if problem.Err.Field == path {
				refused[port] = problem.Reason
			}
		}
	}
	return refused
}
