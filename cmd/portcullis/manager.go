package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/certs"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers"
	"jeffthecoder.xyz/portcullis/webhooks"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	utilruntime.Must(gatewayv1.Install(scheme))
	utilruntime.Must(gatewayv1beta1.Install(scheme))
	utilruntime.Must(cmv1.AddToScheme(scheme))
	return scheme
}

// run serves and reconciles until ctx is done.
func run(ctx context.Context, o *options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	serving, err := newServing(o)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, o, serving)
	if err != nil {
		return err
	}
	if err := setup(ctx, mgr, o, serving); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newServing(o *options) (*certs.Serving, error) {
	options := certs.Options{
		Dir: o.certDir, SelfManaged: o.selfSigned, Namespace: o.namespace, SecretName: o.certSecret,
		WebhookConfiguration: o.webhookConfiguration, DNSNames: o.serverNames(),
	}
	if len(o.settings.Guard) > 0 { // config/guard brings it
		options.Others = []string{o.webhookConfiguration + "-guard"}
	}
	serving, err := certs.New(options)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	return serving, nil
}

func newManager(cfg *rest.Config, o *options, serving *certs.Serving) (manager.Manager, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "portcullis/" + version
	cfg.QPS = -1 // the API server's priority and fairness decides who waits
	cfg.Wrap(kube.LimitAnswers)
	secure, err := withClientCA(secured(serving), o.clientCA)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: newScheme(),
		Cache:  kube.CacheOptions(),
		// Metrics and probes are served by addServers.
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		PprofBindAddress:              o.profileAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "portcullis",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.lease.duration,
		RenewDeadline:                 &o.lease.renewDeadline,
		RetryPeriod:                   &o.lease.retryPeriod,
		WebhookServer:                 webhooks.NewServer(net.JoinHostPort(o.webhookHost, strconv.Itoa(o.webhookPort)), secure),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

// withClientCA lets in only clients with a certificate of a CA, where a file names one.
func withClientCA(secure *tls.Config, file string) (*tls.Config, error) {
	if file == "" {
		return secure, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("client CA of the webhook: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA of the webhook: %s holds no certificate", file)
	}
	secure = secure.Clone()
	secure.ClientAuth, secure.ClientCAs = tls.RequireAndVerifyClientCert, pool
	return secure, nil
}

// Whether the API server trusts the certificate of this replica is read from the one configuration that matters.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=portcullis,verbs=get

// setup adds everything that the manager runs.
func setup(ctx context.Context, mgr manager.Manager, o *options, serving *certs.Serving) error {
	view, err := o.settings.NewView(ctx, mgr.GetCache(), mgr.GetAPIReader(), mgr.GetRESTMapper(), o.namespace)
	if err != nil {
		return err
	}
	if view.Endpoints, err = kube.NewEndpoints(mgr); err != nil {
		return err
	}
	if err := mgr.Add(view.Endpoints); err != nil {
		return fmt.Errorf("reading EndpointSlices: %w", err)
	}
	targets, err := kube.TargetInformers(mgr)
	if err != nil {
		return err
	}
	if err := view.Targets.Watch(ctx, targets); err != nil {
		return err
	}
	ledger := kube.NewLedger(mgr.GetAPIReader(), mgr.GetClient(), view, claim.Ledger{Grace: o.claimGrace})
	if err := serving.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	if err := webhooks.Setup(mgr, webhooks.Options{
		View: view, Ledger: ledger, Guard: o.settings.Guard, Events: mgr.GetEventRecorder("portcullis"),
	}); err != nil {
		return err
	}
	if err := reconcilers.Setup(mgr, reconcilers.Options{
		View: view, Ledger: ledger, PodToIP: o.podToIP, AuditInterval: o.auditInterval,
		HandOverWait: o.handOverWait, HeirPatience: o.heirPatience,
	}); err != nil {
		return err
	}
	if err := mgr.Add(view.Gateways); err != nil {
		return fmt.Errorf("reading what is guarded: %w", err)
	}
	if err := mgr.Add(returner{}); err != nil {
		return fmt.Errorf("giving memory back: %w", err)
	}
	return addServers(mgr, o, serving, view)
}
