package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// stage is a running Portcullis on which something is measured.
type stage struct {
	*harness.Harness
	b *bench
}

// on runs do on a stage of its own, with so many replicas.
func (b *bench) on(replicas int, o harness.Options, do func(*stage) error) (err error) {
	o.Binary, o.Replicas, o.Templates = b.binary, replicas, b.templates
	o.WebhookTimeout = 30 // what takes longer than it may is to be measured, too
	h, err := harness.Start(b.ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	err = do(&stage{Harness: h, b: b})
	return errors.Join(err, lastWords(h, err))
}

// lastWords tells how the replicas that have ended did so, when err says that something went wrong.
func lastWords(h *harness.Harness, err error) error {
	if err == nil {
		return nil
	}
	var ended []error
	for i, r := range h.Replicas {
		select {
		case <-r.Ended():
			ended = append(ended, fmt.Errorf("replica %d has ended; its log ends with:\n%s", i, r.LogTail(2000)))
		default:
		}
	}
	return errors.Join(ended...)
}

// edge is the namespace of what a class writes to.
func edge(class string) string { return "edge-" + class }

// class makes a class, and waits until it serves.
func (s *stage) class(name string, withService bool, change ...func(*corev1.Service)) error {
	if err := s.makeClass(name, withService, change...); err != nil {
		return err
	}
	class := &v1beta1.StreamIngressClass{}
	return s.until(func() (bool, error) {
		err := s.Client.Get(s.b.ctx, client.ObjectKey{Name: name}, class)
		return len(class.Status.Conditions) > 0, err
	})
}

// makeClass makes a class with a ConfigMap of its own. With a Service, whose ports are opened, too, change says how it differs
// from one inside the cluster.
func (s *stage) makeClass(name string, withService bool, change ...func(*corev1.Service)) error {
	at := edge(name)
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: at, Name: "tcp-services"}
	class.Spec.AutoAssign = &v1beta1.PortRange{From: 50000, To: 65535}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at}}}
	if withService {
		class.Spec.Service = &v1beta1.ObjectReference{Namespace: at, Name: "proxy"}
		proxy := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: "proxy"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
		}
		for _, differ := range change {
			differ(proxy)
		}
		objects = append(objects, proxy)
	}
	for _, object := range append(objects, class) {
		if err := s.Client.Create(s.b.ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// clients makes n clients with connections of their own, each with a namespace of its own that has the Service "web".
func (s *stage) clients(prefix string, n int) (clients []client.Client, namespaces []string, err error) {
	for i := range n {
		c, err := s.user()
		if err != nil {
			return nil, nil, err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return nil, nil, err
		}
		web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "web"}}
		web.Spec.ClusterIP, web.Spec.Ports = corev1.ClusterIPNone, []corev1.ServicePort{{Port: 80}}
		if err := s.Client.Create(s.b.ctx, web); err != nil {
			return nil, nil, err
		}
		clients, namespaces = append(clients, c), append(namespaces, ns.Name)
	}
	return clients, namespaces, nil
}

// user makes a client with a connection of its own.
func (s *stage) user() (client.WithWatch, error) {
	config := s.Config()
	config.Dial, config.WarningHandlerWithContext = (&net.Dialer{}).DialContext, rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: harness.Scheme(), Mapper: s.Client.RESTMapper()})
}

// until waits until check says so.
func (s *stage) until(check func() (bool, error)) error {
	return s.untilEvery(20*time.Millisecond, check)
}

// untilEvery waits until check says so, which is asked no more often than every interval.
func (s *stage) untilEvery(interval time.Duration, check func() (bool, error)) error {
	return wait.PollUntilContextTimeout(s.b.ctx, interval, time.Hour, true,
		func(context.Context) (bool, error) { return check() })
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
