package streams

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	listenersDesc = prometheus.NewDesc("portcullis_gateway_listeners",
		"Listeners that Portcullis has written for the streams of a class, by what the controller of the Gateway says of them "+
			"(programmed, conflicted, refused, pending).", []string{"class", "state"}, nil)

	routesDesc = prometheus.NewDesc("portcullis_gateway_routes",
		"Routes that Portcullis has written for the streams of a class, by what the controller of the Gateway says of them "+
			"(accepted, refused, pending).", []string{"class", "state"}, nil)
)

// gatewayCounts counts listeners and routes.
type gatewayCounts struct{ gateways *kube.Gateways }

// Describe implements prometheus.Collector.
func (gatewayCounts) Describe(descs chan<- *prometheus.Desc) {
	descs <- listenersDesc
	descs <- routesDesc
}

// classState is what is counted.
type classState struct{ class, state string }

// Collect implements prometheus.Collector.
func (c gatewayCounts) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), report.ScrapeTimeout)
	defer cancel()
	sets, err := c.gateways.ListenerSets(ctx, "")
	if err != nil {
		return
	}
	counts := map[*prometheus.Desc]map[classState]float64{listenersDesc: {}, routesDesc: {}}
	for i := range sets {
		for _, entry := range sets[i].Spec.Listeners {
			counts[listenersDesc][classState{sets[i].Labels[v1beta1.LabelClass], listenerState(&sets[i], entry.Name)}]++
		}
	}
	routes, err := c.gateways.Routes(ctx)
	if err != nil {
		return
	}
	for _, route := range routes {
		counts[routesDesc][classState{route.GetLabels()[v1beta1.LabelClass], routeState(route)}]++
	}
	for desc, states := range counts {
		for k, n := range states {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n, k.class, k.state)
		}
	}
}

// listenerState is what a controller says of a listener, in a word.
func listenerState(set *gatewayv1.ListenerSet, name gatewayv1.SectionName) string {
	for i := range set.Status.Listeners {
		entry := &set.Status.Listeners[i]
		if entry.Name != name {
			continue
		}
		programmed := meta.FindStatusCondition(entry.Conditions, string(gatewayv1.ListenerEntryConditionProgrammed))
		switch {
		case meta.IsStatusConditionTrue(entry.Conditions, string(gatewayv1.ListenerEntryConditionConflicted)):
			return "conflicted"
		case programmed == nil || programmed.Status == metav1.ConditionUnknown:
			return "pending"
		case programmed.Status == metav1.ConditionTrue:
			return "programmed"
		default:
			return "refused"
		}
	}
	return "pending"
}

// routeState is what controllers say of a route, in a word.
func routeState(route stream.RouteObject) string {
	state := "pending"
	for _, parent := range stream.SaidOf(route) {
		accepted := meta.FindStatusCondition(parent.Conditions, string(gatewayv1.RouteConditionAccepted))
		switch {
		case accepted == nil || accepted.Status == metav1.ConditionUnknown:
		case accepted.Status == metav1.ConditionFalse:
			return "refused"
		default:
			state = "accepted"
		}
	}
	return state
}
