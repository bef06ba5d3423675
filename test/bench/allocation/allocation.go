// Package allocation measures how fast a controller gives Services of type LoadBalancer their addresses, and what it
// writes for that. Whatever controller it is, the Services are the same, and so is what is looked at.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// label is on all Services of a burst; its value is the burst's name.
const label = "allocation.bench/burst"

// Burst is a number of Services that are created as fast as a number of users can.
type Burst struct {
	// Name of the burst, and of the namespace of its Services.
	Name string
	// Class is the loadBalancerClass of the Services.
	Class           string
	Services, Users int
}

// Outcome is what became of a burst.
type Outcome struct {
	// Created is how long it took to create all Services.
	Created time.Duration
	// Waited is the time from the answer to the last create to the last address. It is 0 when they all have been there.
	Waited time.Duration
}

// Total is the time from the first create to the last address.
func (o Outcome) Total() time.Duration { return o.Created + o.Waited }

// Run creates the Services, and waits until each has an address. It is an error when two of them have the same.
func (b Burst) Run(ctx context.Context, config *rest.Config) (o Outcome, err error) {
	users, err := clients(config, b.Users+1)
	if err != nil {
		return o, err
	}
	spectator, users := users[0], users[1:]
	if err := spectator.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Name}}); err != nil {
		return o, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	if err := b.watch(ctx, spectator, served); err != nil {
		return o, err
	}
	began := time.Now()
	if err := b.create(ctx, users); err != nil {
		return o, err
	}
	created := time.Now()
	if err := <-served; err != nil {
		return o, err
	}
	return Outcome{Created: created.Sub(began), Waited: max(time.Since(created), 0)}, nil
}

// create lets all users create Services until there are as many as wanted.
func (b Burst) create(ctx context.Context, users []client.WithWatch) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, len(users))
	for i, user := range users {
		group.Go(func() {
			for errs[i] == nil {
				number := int(next.Add(1)) - 1
				if number >= b.Services {
					return
				}
				errs[i] = user.Create(ctx, b.service(number))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// service is a Service as small as it can be. It has no node ports: there are fewer of them than Services.
func (b Burst) service(number int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Name, Name: fmt.Sprintf("service-%d", number), Labels: map[string]string{label: b.Name},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &b.Class,
			AllocateLoadBalancerNodePorts: new(false),
			Ports:                         []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

// watch tells served when all Services have addresses.
func (b Burst) watch(ctx context.Context, c client.WithWatch, served chan<- error) error {
	known := &corev1.ServiceList{}
	if err := c.List(ctx, known, client.InNamespace(b.Name)); err != nil {
		return err
	}
	watcher, err := harness.Follow(ctx, c, known, client.InNamespace(b.Name))
	if err != nil {
		return err
	}
	go func() {
		defer watcher.Stop()
		has, holder := map[string]bool{}, map[string]string{}
		for event := range watcher.ResultChan() {
			service, ok := event.Object.(*corev1.Service)
			if !ok {
				served <- fmt.Errorf("the watch of Services ended: %v", event.Object)
				return
			}
			for _, ingress := range service.Status.LoadBalancer.Ingress {
				if other := holder[ingress.IP]; ingress.IP == "" || (other != "" && other != service.Name) {
					served <- fmt.Errorf("%s has the address %q, as %q has", service.Name, ingress.IP, other)
					return
				}
				has[service.Name], holder[ingress.IP] = true, service.Name
			}
			if len(has) == b.Services {
				served <- nil
				return
			}
		}
		served <- errors.Join(ctx.Err(), errors.New("the watch of Services ended"))
	}()
	return nil
}

// Clear deletes the Services.
func (b Burst) Clear(ctx context.Context, c client.Client) error {
	return c.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(b.Name))
}

// Writes are those of one user that were granted, by resource; see controlplane.Write.
type Writes map[string]int

// Granted counts what a user was granted to write.
func Granted(writes []controlplane.Write, user string) Writes {
	counts := Writes{}
	for _, w := range writes {
		if w.User == user && w.Code < 400 && !strings.HasPrefix(w.Resource, "leases") {
			counts[w.Resource]++
		}
	}
	return counts
}

// All is how many there were, of whatever resource.
func (w Writes) All() (sum int) {
	for _, n := range w {
		sum += n
	}
	return sum
}

// clients makes clients with connections of their own.
func clients(config *rest.Config, n int) (all []client.WithWatch, err error) {
	for range n {
		own := rest.CopyConfig(config)
		own.Dial, own.WarningHandlerWithContext = (&net.Dialer{}).DialContext, rest.NoWarnings{}
		c, err := client.NewWithWatch(own, client.Options{Scheme: harness.Scheme()})
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
