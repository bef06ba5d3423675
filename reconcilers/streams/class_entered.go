package streams

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// entered are the ports whose entries the ConfigMaps of each class have, by the last look at the class. It is the source of
// what serviceReconciler is asked for: each look at a class asks it to look at the Service. A new process knows nothing before
// it has looked at the classes.
type entered struct {
	mu    sync.Mutex
	queue watch.Queue
	// early are the classes that were asked for before there was a queue.
	early []string
	known map[string]enteredPorts
}

// enteredPorts are those of a class of that UID and generation.
type enteredPorts struct {
	uid        types.UID
	generation int64
	ports      map[stream.PortKey]bool
}

var _ source.Source = &entered{}

func newEntered() *entered { return &entered{known: map[string]enteredPorts{}} }

// Start implements source.Source.
func (e *entered) Start(_ context.Context, q watch.Queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = q
	for _, class := range e.early {
		q.Add(watch.ForName(class))
	}
	e.early = nil
	return nil
}

// set says which ports the ConfigMaps of a class have.
func (e *entered) set(class *v1beta1.StreamIngressClass, ports map[stream.PortKey]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[class.Name] = enteredPorts{uid: class.UID, generation: class.Generation, ports: ports}
	e.ask(class.Name)
}

// drop forgets a class: nothing is to be opened for it.
func (e *entered) drop(class string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, class)
	e.ask(class)
}

func (e *entered) ask(class string) {
	if e.queue == nil {
		e.early = append(e.early, class)
		return
	}
	e.queue.Add(watch.ForName(class))
}

// of are the ports that the ConfigMaps of a class have; known is false when the class has not been looked at as it is.
func (e *entered) of(class *v1beta1.StreamIngressClass) (ports map[stream.PortKey]bool, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, known := e.known[class.Name]
	if last.uid != class.UID || last.generation != class.Generation {
		return nil, false
	}
	return last.ports, known
}
