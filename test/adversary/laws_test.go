package adversary

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// law is something that is true after every change. check looks at what a change concerns: now is what is stored after it, before
// what it was a change of, nil for a creation.
type law struct {
	name string
	// bypassed says that it is admission which keeps it: who gets past that, as no replica answers and the administrator lets
	// requests pass, breaks it for a moment.
	bypassed bool
	check    func(now *moment, c change, before client.Object) error
}

var laws = slices.Concat(lawsOfServices, lawsOfIngresses, lawsOfStreams, lawsOfProxies, lawsOfForwarded, lawsOfListeners)
