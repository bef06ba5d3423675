package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllerManager is the user of the controller manager, as in other clusters. Its controllers have a service account
// each, in kube-system.
const controllerManager = "system:kube-controller-manager"

// controllers are what there is to control without nodes. Left out are those of nodes, volumes and certificates, and the
// one of lost Pods: it would delete every Pod on a node that somebody only pretends to have.
var controllers = []string{
	"garbage-collector-controller", "namespace-controller", "resourcequota-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller", "validatingadmissionpolicy-status-controller",
	"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller", "service-cidr-controller",
	// They make Pods, which stay Pending.
	"deployment-controller", "replicaset-controller", "replicationcontroller-controller", "statefulset-controller",
	"daemonset-controller", "job-controller", "cronjob-controller", "ttl-after-finished-controller", "disruption-controller",
	// They remove finalizers that the API server sets: without them no namespace with such an object would end.
	"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller",
}

// StartControllers starts kube-controller-manager, with Options.Controllers only, and returns when it collects garbage
// and default ServiceAccounts are there. The garbage collector and quotas know the kinds that are served now; of later
// ones they learn up to 30 s late. A restarted API server is found again, after up to 30 s.
func (cp *ControlPlane) StartControllers(ctx context.Context) error {
	if !cp.opts.Controllers {
		return errors.New("StartControllers needs Options.Controllers")
	}
	if err := cp.awaitKinds(ctx); err != nil {
		return err
	}
	kubeconfig, err := cp.KubeconfigFor(filepath.Join(cp.opts.Dir, "controller-manager.kubeconfig"), controllerManager)
	if err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--use-service-account-credentials",
		"--service-account-private-key-file=" + cp.pki.path("serviceaccount.key"),
		"--root-ca-file=" + cp.pki.path("ca.crt"),
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false", "--secure-port=0",
		// To end a namespace takes two requests for every kind that there is.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		// What is created and deleted at once can stay counted: the quota controller compares its count with a cached
		// status that lags behind admission's, and writes nothing. Status changes don't wake it; it counts again at its
		// full resync, which comes every 5 minutes unless told otherwise: a namespace would be full for as long.
		"--resource-quota-sync-period=10s",
	}
	if cp.controllers, err = cp.startServer("kube-controller-manager", args); err != nil {
		return err
	}
	return cp.controllersWork(ctx)
}

// controllersWork waits until a Pod in the default namespace would find its ServiceAccount and the root CA, and until the
// garbage collector has seen the objects of all kinds: only then does it collect.
func (cp *ControlPlane) controllersWork(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		return err
	}
	configs := c.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if err := cp.controllers.ready(ctx, func(ctx context.Context) error {
		if _, err := c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := configs.Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	const name = "owned-by-nobody"
	_, err = configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: name}},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return cp.controllers.ready(ctx, func(ctx context.Context) error {
		_, err := configs.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return errors.New("garbage is not collected")
		}
		return client.IgnoreNotFound(err)
	})
}

// awaitKinds waits until the API server lists the kinds of all CustomResourceDefinitions among those that it serves.
func (cp *ControlPlane) awaitKinds(ctx context.Context) error {
	definitions, err := apiextensions.NewForConfig(cp.Config())
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cp.Config())
	if err != nil {
		return err
	}
	return cp.apiServer.ready(ctx, func(ctx context.Context) error {
		all, err := definitions.CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		_, lists, err := kinds.ServerGroupsAndResourcesWithContext(ctx)
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // some extension API server is away
			return err
		}
		served := map[string]bool{}
		for _, list := range lists {
			for i := range list.APIResources {
				served[list.GroupVersion+"/"+list.APIResources[i].Name] = true
			}
		}
		for i := range all.Items {
			if want := servedKind(&all.Items[i]); want != "" && !served[want] {
				return fmt.Errorf("%s is not served yet", want)
			}
		}
		return nil
	})
}

// servedKind returns group, version and plural of what a definition defines; nothing when it will never be served, for
// another has its names.
func servedKind(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse {
			return ""
		}
	}
	for _, version := range definition.Spec.Versions {
		if version.Served {
			return definition.Spec.Group + "/" + version.Name + "/" + definition.Spec.Names.Plural
		}
	}
	return ""
}
