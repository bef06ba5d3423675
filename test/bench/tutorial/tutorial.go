// Package tutorial is a controller as a tutorial would have it, to compare with: for each StreamIngress it reads the
// ConfigMap, adds a key and updates it, and does the same with the Service; on a conflict it tries again. It knows no
// deletions, no foreign entries and no status.
package tutorial

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// reconciler writes what streams need, one at a time.
type reconciler struct {
	client.Client
	configMap, service types.NamespacedName
}

// Run runs the controller until ctx is done. The arguments name a kubeconfig and the namespace of what it writes to.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tutorial", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "path of the kubeconfig")
	namespace := flags.String("namespace", "", "namespace of the ConfigMap tcp-services and the Service proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	mgr, err := newManager(config)
	if err != nil {
		return err
	}
	r := &reconciler{
		Client:    mgr.GetClient(),
		configMap: types.NamespacedName{Namespace: *namespace, Name: "tcp-services"},
		service:   types.NamespacedName{Namespace: *namespace, Name: "proxy"},
	}
	if err := builder.ControllerManagedBy(mgr).For(&v1beta1.StreamIngress{}).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(config *rest.Config) (manager.Manager, error) {
	return manager.New(config, manager.Options{
		Scheme: harness.Scheme(), Cache: cache.Options{}, Metrics: metricsserver.Options{BindAddress: "0"},
	})
}

// Reconcile adds one stream to the ConfigMap and to the Service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var si v1beta1.StreamIngress
	if err := r.Get(ctx, req.NamespacedName, &si); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.addEntry(ctx, &si) }); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.addPort(ctx, &si) })
}

func (r *reconciler) addEntry(ctx context.Context, si *v1beta1.StreamIngress) error {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, r.configMap, &cm); err != nil {
		return err
	}
	key := strconv.Itoa(int(*si.Spec.Listen))
	entry := fmt.Sprintf("%s/%s:%s", si.UpstreamNamespace(), si.UpstreamService(), si.Spec.Upstream.Port.String())
	if cm.Data[key] == entry {
		return nil
	}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	cm.Data[key] = entry
	return r.Update(ctx, &cm)
}

func (r *reconciler) addPort(ctx context.Context, si *v1beta1.StreamIngress) error {
	var svc corev1.Service
	if err := r.Get(ctx, r.service, &svc); err != nil {
		return err
	}
	for _, p := range svc.Spec.Ports {
		if p.Port == *si.Spec.Listen && p.Protocol == corev1.ProtocolTCP {
			return nil
		}
	}
	svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
		Name: fmt.Sprintf("tcp-%d", *si.Spec.Listen), Protocol: corev1.ProtocolTCP, Port: *si.Spec.Listen,
		TargetPort: intstr.FromInt32(*si.Spec.Listen),
	})
	return r.Update(ctx, &svc)
}
