package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// tutorialUser is the name under which the tutorial's controller speaks to the API server.
const tutorialUser = "tutorial"

// tutorial measures what a controller takes that writes once for each stream, in the place of Portcullis. A burst that
// takes too long is broken off, and what it would have taken is computed.
func (b *bench) tutorial() error {
	sizes, limit := []int{100, 1000, 10000}, 60*time.Second
	if b.quick {
		sizes, limit = []int{100, 500}, 4*time.Second // the second one is broken off
	}
	return b.on(0, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
		webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}}
		if err := s.Client.Delete(b.ctx, webhooks); err != nil {
			return err
		}
		probe := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		probe.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "default", Name: "probe"}
		if err := s.until(func() (bool, error) { // the API server learns a moment later that nobody is to be asked
			return s.Client.Create(b.ctx, probe.DeepCopy(), client.DryRunAll) == nil, nil
		}); err != nil {
			return err
		}
		for i, n := range sizes {
			if i > 0 { // the next controller is to see streams of its own only
				if err := s.takeBack(tutorialClass(sizes[i-1])); err != nil {
					return err
				}
			}
			b.say("tutorial: %d streams, one write of the ConfigMap and one of the Service for each", n)
			o, err := s.tutorialBurst(n, limit)
			if err != nil {
				return err
			}
			b.say("  %s", o)
			b.tutorials = append(b.tutorials, *o)
		}
		return nil
	})
}

func tutorialClass(n int) string { return fmt.Sprintf("tutorial-%d", n) }

// takeBack deletes the streams of a class.
func (s *stage) takeBack(class string) (err error) {
	for i := range crowd {
		err = errors.Join(err, s.Client.DeleteAllOf(s.b.ctx, &v1beta1.StreamIngress{}, client.InNamespace(fmt.Sprintf("%s-%d", class, i))))
	}
	return err
}

// tutorialBurst measures one burst.
func (s *stage) tutorialBurst(n int, limit time.Duration) (o *outcome, err error) {
	b := burst{
		class: tutorialClass(n), streams: n, firstPort: 10000, withService: true, user: tutorialUser, limit: limit,
	}
	if err := s.makeClass(b.class, true); err != nil {
		return nil, err
	}
	empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: edge(b.class), Name: "tcp-services"}}
	if err := s.Client.Create(s.b.ctx, empty); err != nil {
		return nil, err
	}
	kubeconfig, err := s.KubeconfigFor(filepath.Join(s.b.dir, b.class+".kubeconfig"), tutorialUser, "system:masters")
	if err != nil {
		return nil, err
	}
	controller, err := s.b.spawn("tutorial", "--kubeconfig="+kubeconfig, "--namespace="+edge(b.class))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, controller.Stop(0)) }()
	return s.converge(b)
}
