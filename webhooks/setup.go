// Package webhooks answers admission requests: it gathers the view, calls the rules, claims, and says yes or no.
package webhooks

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
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
	for _, w := range all(o) {
		if err := w.register(mgr); err != nil {
			return fmt.Errorf("webhook for %s: %w", w.of, err)
		}
	}
	return nil
}

// hook is a webhook that Setup registers.
type hook struct {
	// of is what it decides on, for messages.
	of string
	// isOurs says that it is in config/webhook, which has it called in some namespaces only; others are in config/guard.
	isOurs   bool
	register func(manager.Manager) error
	// validate asks it about a new object (before is nil), or the change of one. Objects of other kinds are none of its business.
	validate func(ctx context.Context, before, obj client.Object) (admission.Warnings, error)
}

// at is a webhook at a path, empty for the path of its kind.
func at[T client.Object](path, of string, obj T, v admission.Validator[T]) hook {
	return hook{
		of: of,
		register: func(mgr manager.Manager) error {
			b := builder.WebhookManagedBy(mgr, obj).WithValidator(v)
			if path != "" {
				b = b.WithValidatorCustomPath(path)
			}
			return b.Complete()
		},
		validate: func(ctx context.Context, before, obj client.Object) (admission.Warnings, error) {
			after, is := obj.(T)
			if !is {
				return nil, nil
			}
			if was, is := before.(T); is {
				return v.ValidateUpdate(ctx, was, after)
			}
			return v.ValidateCreate(ctx, after)
		},
	}
}

// all are all webhooks. Without a configuration that has the API server call those of what others open, nobody does.
func all(o Options) []hook {
	ours := []hook{
		at("", "StreamIngress", &v1beta1.StreamIngress{}, &streamValidator{view: o.View, ledger: o.Ledger}),
		at("", "StreamIngressClass", &v1beta1.StreamIngressClass{}, &classValidator{view: o.View, ledger: o.Ledger}),
		at("", "HostPolicy", &v1beta1.HostPolicy{}, &hostPolicyValidator{view: o.View}),
		at("", "AddressPool", &v1beta1.AddressPool{}, &poolValidator{view: o.View}),
		at("", "Service", &corev1.Service{}, &serviceValidator{view: o.View, ledger: o.Ledger, events: o.Events}),
	}
	for i := range ours {
		ours[i].isOurs = true
	}
	v := listenerGuard{view: o.View, ledger: o.Ledger, actions: o.Guard, events: o.Events}
	return append(ours,
		at("", "Gateway", &gatewayv1.Gateway{}, guarding(v, guard.Gateway, v.gateway)),
		at("", "ListenerSet", &gatewayv1.ListenerSet{}, guarding(v, guard.ListenerSet, v.set)),
		ofRoutes(v, guard.TCPRoute, &gatewayv1.TCPRoute{}),
		ofRoutes(v, guard.UDPRoute, &gatewayv1.UDPRoute{}),
		ofRoutes(v, guard.TLSRoute, &gatewayv1.TLSRoute{}),
		at(externalIPsPath, "spec.externalIPs", &corev1.Service{}, guarding(v, guard.ExternalIPs, externalIPsGuard{v}.decide)),
		ofHosts(v, "", "Service", "services", &corev1.Service{}, ""),
		ofHosts(v, networkingv1.GroupName, "Ingress", "ingresses", &networkingv1.Ingress{}, guard.Ingress),
		ofHosts(v, gatewayv1.GroupName, "HTTPRoute", "httproutes", &gatewayv1.HTTPRoute{}, guard.HTTPRoute),
		ofHosts(v, gatewayv1.GroupName, "GRPCRoute", "grpcroutes", &gatewayv1.GRPCRoute{}, guard.GRPCRoute),
		ofHosts(v, gatewayv1.GroupName, "TLSRoute", "tlsroutes", &gatewayv1.TLSRoute{}, guard.TLSRoute),
		ofHosts(v, gatewayv1.GroupName, "TCPRoute", "tcproutes", &gatewayv1.TCPRoute{}, ""),
		ofHosts(v, gatewayv1.GroupName, "UDPRoute", "udproutes", &gatewayv1.UDPRoute{}, ""),
	)
}

// ofHosts is the webhook of the host names of a kind, which are guarded as guards.
func ofHosts[T client.Object](v listenerGuard, group, kind, resource string, obj T, guards guard.Kind) hook {
	return at(hostsPath+resource, "the host names of "+resource, obj, onWrite[T](hostGuard{
		listenerGuard: v, kind: guards, of: schema.GroupKind{Group: group, Kind: kind},
		resource: schema.GroupResource{Group: group, Resource: resource},
	}.validate))
}

// ofRoutes is the webhook of a kind of routes.
func ofRoutes[T client.Object](v listenerGuard, kind guard.Kind, route T) hook {
	r := routeGuard{listenerGuard: v, kind: kind, resource: strings.ToLower(string(kind)) + "s"}
	return at("", string(kind), route, onWrite[T](r.validate))
}
