package certs

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// noNamespaceDelay is how long to wait before the Secret is tried again in a namespace that is not there or is going.
const noNamespaceDelay = 5 * time.Second

// mirror copies the Secret into the certificate directory of this replica, and makes it when it is missing. cert-controller leaves
// both to others: it updates a Secret that is there already, and waits for kubelet to mount it.
type mirror struct {
	opts   Options
	reader client.Reader
	writer client.Writer
	// issue makes a Secret with a new authority and certificate, published is told that the directory changed.
	issue     func() (*corev1.Secret, error)
	published func()
	log       logr.Logger
}

// setup registers the mirror with the manager; it reads through c, which somebody else starts.
func (m *mirror) setup(mgr manager.Manager, c cache.Cache) error {
	ctl, err := controller.NewUnmanaged("certificate-mirror", controller.Options{
		Reconciler:         m,
		Logger:             m.log,
		NeedLeaderElection: ptr.To(false),
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return err
	}
	if err := ctl.Watch(source.Kind(c, &corev1.Secret{}, &handler.TypedEnqueueRequestForObject[*corev1.Secret]{})); err != nil {
		return err
	}
	// A Secret that is missing from the start sends no event.
	if err := ctl.Watch(source.Func(m.enqueue)); err != nil {
		return err
	}
	return mgr.Add(ctl)
}

func (m *mirror) key() client.ObjectKey {
	return client.ObjectKey{Namespace: m.opts.Namespace, Name: m.opts.SecretName}
}

func (m *mirror) enqueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{NamespacedName: m.key()})
	return nil
}

// Reconcile makes the directory say what the Secret says.
func (m *mirror) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.NamespacedName != m.key() {
		return reconcile.Result{}, nil
	}
	secret := &corev1.Secret{}
	if err := m.reader.Get(ctx, m.key(), secret); apierrors.IsNotFound(err) {
		return m.create(ctx)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if len(secret.Data[certFile]) == 0 || len(secret.Data[keyFile]) == 0 {
		return reconcile.Result{}, nil // The leader is about to fill it in.
	}
	changed, err := publish(m.opts.Dir, map[string][]byte{
		certFile: secret.Data[certFile], keyFile: secret.Data[keyFile], caFile: secret.Data[caFile],
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if changed {
		m.published()
	}
	return reconcile.Result{}, nil
}

// create makes the Secret with a certificate in it, so that the first of several replicas decides for all of them, no
// half-made Secret is ever seen, and none of this has to wait for a leader.
func (m *mirror) create(ctx context.Context) (reconcile.Result, error) {
	secret, err := m.issue()
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("making a certificate: %w", err)
	}
	switch err := m.writer.Create(ctx, secret); {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, nil // Another replica's, which the watch is about to bring.
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		m.log.Info("The namespace of the certificate Secret is not there, trying again", "namespace", m.opts.Namespace)
		return reconcile.Result{RequeueAfter: noNamespaceDelay}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("creating the certificate Secret: %w", err)
	}
	m.log.Info("Made an authority and a serving certificate", "secret", m.key().String())
	return reconcile.Result{}, nil
}
