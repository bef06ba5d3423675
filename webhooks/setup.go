// Package webhooks answers admission requests: it gathers the view, calls the rules, claims, and says yes or no.
package webhooks

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// Options are what the webhooks decide with.
type Options struct {
	View   *kube.View
	Ledger *claim.Ledger
	// Guard says what becomes of what others open.
	Guard guard.Actions
	// Events take what those who keep a HostPolicy are told of who asks in vain.
	Events events.EventRecorder
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
	hosts := &hostPolicyValidator{view: o.View}
	if err := builder.WebhookManagedBy(mgr, &v1beta1.HostPolicy{}).WithValidator(hosts).Complete(); err != nil {
		return fmt.Errorf("webhook for HostPolicy: %w", err)
	}
	pools := &poolValidator{view: o.View}
	if err := builder.WebhookManagedBy(mgr, &v1beta1.AddressPool{}).WithValidator(pools).Complete(); err != nil {
		return fmt.Errorf("webhook for AddressPool: %w", err)
	}
	services := &serviceValidator{view: o.View, ledger: o.Ledger, events: o.Events}
	if err := builder.WebhookManagedBy(mgr, &corev1.Service{}).WithValidator(services).Complete(); err != nil {
		return fmt.Errorf("webhook for Service: %w", err)
	}
	return setupGuard(mgr, listenerGuard{view: o.View, ledger: o.Ledger, actions: o.Guard, events: o.Events})
}

// setupGuard registers the webhooks of what others open. Without a configuration that has the API server call them, nobody does.
func setupGuard(mgr manager.Manager, v listenerGuard) error {
	if err := builder.WebhookManagedBy(mgr, &gatewayv1.Gateway{}).WithValidator(gatewayGuard{v}).Complete(); err != nil {
		return fmt.Errorf("webhook for Gateway: %w", err)
	}
	if err := builder.WebhookManagedBy(mgr, &gatewayv1.ListenerSet{}).WithValidator(setGuard{v}).Complete(); err != nil {
		return fmt.Errorf("webhook for ListenerSet: %w", err)
	}
	if err := errors.Join(
		setupRoutes(mgr, v, guard.TCPRoute, &gatewayv1.TCPRoute{}),
		setupRoutes(mgr, v, guard.UDPRoute, &gatewayv1.UDPRoute{}),
		setupRoutes(mgr, v, guard.TLSRoute, &gatewayv1.TLSRoute{}),
	); err != nil {
		return err
	}
	err := builder.WebhookManagedBy(mgr, &corev1.Service{}).WithValidator(externalIPsGuard{v}).
		WithValidatorCustomPath(externalIPsPath).Complete()
	if err != nil {
		return fmt.Errorf("webhook for spec.externalIPs: %w", err)
	}
	return errors.Join(
		setupHosts(mgr, v, "", "Service", "services", &corev1.Service{}, ""),
		setupHosts(mgr, v, networkingv1.GroupName, "Ingress", "ingresses", &networkingv1.Ingress{}, guard.Ingress),
		setupHosts(mgr, v, gatewayv1.GroupName, "HTTPRoute", "httproutes", &gatewayv1.HTTPRoute{}, guard.HTTPRoute),
		setupHosts(mgr, v, gatewayv1.GroupName, "GRPCRoute", "grpcroutes", &gatewayv1.GRPCRoute{}, guard.GRPCRoute),
		setupHosts(mgr, v, gatewayv1.GroupName, "TLSRoute", "tlsroutes", &gatewayv1.TLSRoute{}, guard.TLSRoute),
		setupHosts(mgr, v, gatewayv1.GroupName, "TCPRoute", "tcproutes", &gatewayv1.TCPRoute{}, ""),
		setupHosts(mgr, v, gatewayv1.GroupName, "UDPRoute", "udproutes", &gatewayv1.UDPRoute{}, ""),
	)
}

// setupHosts registers the webhook of the host names of a kind, which are guarded as guards.
func setupHosts[T client.Object](
	mgr manager.Manager, v listenerGuard, group, kind, resource string, obj T, guards guard.Kind,
) error {
	validator := hostGuard[T]{
		listenerGuard: v, kind: guards, of: schema.GroupKind{Group: group, Kind: kind},
		resource: schema.GroupResource{Group: group, Resource: resource},
	}
	err := builder.WebhookManagedBy(mgr, obj).WithValidator(validator).WithValidatorCustomPath(hostsPath + resource).Complete()
	if err != nil {
		return fmt.Errorf("webhook for the host names of %s: %w", resource, err)
	}
	return nil
}

// setupRoutes registers the webhook of a kind of routes.
func setupRoutes[T client.Object](mgr manager.Manager, v listenerGuard, kind guard.Kind, route T) error {
	validator := routeGuard[T]{listenerGuard: v, kind: kind, resource: strings.ToLower(string(kind)) + "s"}
	if err := builder.WebhookManagedBy(mgr, route).WithValidator(validator).Complete(); err != nil {
		return fmt.Errorf("webhook for %s: %w", kind, err)
	}
	return nil
}
