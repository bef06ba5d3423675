// Package webhooks answers admission requests: it gathers the view, calls the rules, claims, and says yes or no.
package webhooks

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// Options are what the webhooks decide with.
type Options struct {
	View   *kube.View
	Ledger *claim.Ledger
}

// Setup registers all webhooks with the manager's webhook server.
func Setup(mgr manager.Manager, o Options) error {
	streams := &streamValidator{view: o.View, ledger: o.Ledger}
	if err := builder.WebhookManagedBy(mgr, &v1beta1.StreamIngress{}).WithValidator(streams).Complete(); err != nil {
		return fmt.Errorf("webhook for StreamIngress: %w", err)
	}
	classes := &classValidator{view: o.View, ledger: o.Ledger}
	if err := builder.WebhookManagedBy(mgr, &v1beta1.StreamIngressClass{}).WithValidator(classes).Complete(); err != nil {
		return fmt.Errorf("webhook for StreamIngressClass: %w", err)
	}
	pools := &poolValidator{view: o.View}
	if err := builder.WebhookManagedBy(mgr, &v1beta1.AddressPool{}).WithValidator(pools).Complete(); err != nil {
		return fmt.Errorf("webhook for AddressPool: %w", err)
	}
	services := &serviceValidator{view: o.View, ledger: o.Ledger}
	if err := builder.WebhookManagedBy(mgr, &corev1.Service{}).WithValidator(services).Complete(); err != nil {
		return fmt.Errorf("webhook for Service: %w", err)
	}
	return nil
}
