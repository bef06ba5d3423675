package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// stage is a running Portcullis of two replicas on which something is measured.
type stage struct {
	*harness.Harness
	b *bench
}

// on runs do on a stage of its own.
func (b *bench) on(o harness.Options, do func(*stage) error) (err error) {
	o.Binary, o.Replicas = b.binary, 2
	o.WebhookTimeout = 30 // what takes longer than it may is to be measured, too
	h, err := harness.Start(b.ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	return do(&stage{Harness: h, b: b})
}

// class makes a class of its own, and waits until it serves. With a Service, its ports are opened, too.
func (s *stage) class(name string, withService bool) error {
	ctx := s.b.ctx
	at := "edge-" + name
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: at, Name: "tcp-services"}
	class.Spec.AutoAssign = &v1beta1.PortRange{From: 50000, To: 65535}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at}}}
	if withService {
		class.Spec.Service = &v1beta1.ObjectReference{Namespace: at, Name: "proxy"}
		objects = append(objects, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: "proxy"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
		})
	}
	for _, object := range append(objects, class) {
		if err := s.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return s.until(func() (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(class), class)
		return len(class.Status.Conditions) > 0, err
	})
}

// clients makes n clients with connections of their own, each with a namespace of its own.
func (s *stage) clients(prefix string, n int) (clients []client.Client, namespaces []string, err error) {
	for i := range n {
		config := s.Config()
		config.Dial, config.WarningHandlerWithContext = (&net.Dialer{}).DialContext, rest.NoWarnings{}
		c, err := client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: s.Client.RESTMapper()})
		if err != nil {
			return nil, nil, err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return nil, nil, err
		}
		clients, namespaces = append(clients, c), append(namespaces, ns.Name)
	}
	return clients, namespaces, nil
}

// until waits until check says so.
func (s *stage) until(check func() (bool, error)) error {
	return wait.PollUntilContextTimeout(s.b.ctx, 20*time.Millisecond, 15*time.Minute, true,
		func(context.Context) (bool, error) { return check() })
}

// calm waits until no claim of a class is left.
func (s *stage) calm(class string) error {
	return s.until(func() (bool, error) {
		var claims v1beta1.EdgeClaimList
		err := s.Client.List(s.b.ctx, &claims, client.MatchingFields{"spec.scope": "stream/" + class}, client.Limit(1))
		return len(claims.Items) == 0, err
	})
}

// stream is a stream to the Service "web", port 0 for any.
func stream(namespace, name, class string, port int) *v1beta1.StreamIngress {
	s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.ClassName = class
	s.Spec.Upstream = v1beta1.StreamUpstream{Service: "web", Port: intstr.FromInt32(80)}
	if port > 0 {
		s.Spec.Listen = new(int32(port))
	}
	return s
}

// sample are how long things took, in milliseconds.
type sample struct {
	mu  sync.Mutex
	all []float64
	// elapsed is how long all of them together took, in seconds.
	elapsed float64
}

func (s *sample) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, float64(d)/float64(time.Millisecond))
}

// at is the percentile p, from 0 to 100.
func (s *sample) at(p float64) float64 {
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return s.all[min(int(p/100*float64(len(s.all))), len(s.all)-1)]
}

// measure calls do for 0 to n-1, as many at once as there are workers, and adds how long each call took.
func (s *sample) measure(workers, n int, do func(worker, i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, workers)
	began := time.Now()
	for worker := range workers {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || errs[worker] != nil {
					return
				}
				start := time.Now()
				errs[worker] = do(worker, i)
				s.add(time.Since(start))
			}
		})
	}
	group.Wait()
	s.elapsed += time.Since(began).Seconds()
	return errors.Join(errs...)
}
