package streams

import (
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// refusedDoors are the ports of classes with an addressPool that could not be opened. Each is found out by a look at the port, and told
// by the status of its class. A process that begins takes over what the status of the class says, until it has looked itself.
type refusedDoors struct {
	mu    sync.Mutex
	known map[string]map[stream.PortKey]v1beta1.RefusedPort
	// changed has the class told.
	changed chan event.GenericEvent
}

func newRefusedDoors() *refusedDoors {
	return &refusedDoors{known: map[string]map[stream.PortKey]v1beta1.RefusedPort{}, changed: make(chan event.GenericEvent, 1024)}
}

// set notes why a port could not be opened.
func (r *refusedDoors) set(d *door, reason, message string) {
	refused := refusedPort(d.port, reason, message)
	r.note(d.class, func(ports map[stream.PortKey]v1beta1.RefusedPort) { ports[d.port] = refused })
}

// refuse notes why a port could not be opened, and has it tried again later.
func (r *refusedDoors) refuse(d *door, reason, message string) (reconcile.Result, error) {
	r.set(d, reason, message)
	return reconcile.Result{RequeueAfter: watch.RefusedRetry}, nil
}

// clear notes that nothing keeps a port from being open, or that nobody asks for it.
func (r *refusedDoors) clear(d *door) {
	r.note(d.class, func(ports map[stream.PortKey]v1beta1.RefusedPort) { delete(ports, d.port) })
}

func (r *refusedDoors) note(class *v1beta1.StreamIngressClass, change func(map[stream.PortKey]v1beta1.RefusedPort)) {
	r.mu.Lock()
	ports := r.of(class)
	before := maps.Clone(ports)
	change(ports)
	same := maps.Equal(before, ports)
	r.mu.Unlock()
	if !same {
		r.changed <- event.GenericEvent{Object: class}
	}
}

// of are the ports of a class. The lock must be held.
func (r *refusedDoors) of(class *v1beta1.StreamIngressClass) map[stream.PortKey]v1beta1.RefusedPort {
	ports, known := r.known[class.Name]
	if !known {
		ports = map[stream.PortKey]v1beta1.RefusedPort{}
		for _, refused := range class.Status.Refused {
			ports[portOf(refused)] = refused
		}
		r.known[class.Name] = ports
	}
	return ports
}

// list lists the ports of a class that were refused, in ascending order.
func (r *refusedDoors) list(class *v1beta1.StreamIngressClass) []v1beta1.RefusedPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.of(class)), compareRefused)
}

// waiting asks for another look at ports that were refused and are meant, at most so many of them, and whichever.
func (r *refusedDoors) waiting(most int, isMeant func(class string, p v1beta1.RefusedPort) bool) []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var requests []reconcile.Request
	for class, ports := range r.known {
		for at, refused := range ports {
			if len(requests) == most {
				return requests
			}
			if isMeant(class, refused) {
				requests = append(requests, watch.ForName(claim.Stream(class, at.Protocol, at.Port).Name()))
			}
		}
	}
	return requests
}

// forget drops what is known of a class.
func (r *refusedDoors) forget(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, class)
}
