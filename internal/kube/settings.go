package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// Settings are the flags that decide what is refused. Whoever decides as a replica does has them, too.
type Settings struct {
	Exposure      exposure.Defaults
	MaxHTTPPoints int
	LoadBalancers LoadBalancerOptions
	ClusterDomain string
	Guard         guard.Actions
}

// Bind sets the defaults, and has the flags of a command line set the settings.
func (s *Settings) Bind(flags *flag.FlagSet) {
	flags.StringVar(&s.Exposure.Class, "ingress-class", "",
		"IngressClass of Services whose ingress/http names none; empty for the one that the cluster marks as default.")
	flags.StringVar(&s.Exposure.Host, "ingress-host", "example.com",
		"Host of Services whose ingress/http names none; {service} and {namespace} are filled in.")
	flags.IntVar(&s.MaxHTTPPoints, "max-http-points-per-service", 64,
		"How many pairs of host and path one Service gets by ingress/http, and above how many an Ingress that somebody else has "+
			"made gets one claim for each host; 0 for any number. Services that a StreamIngressClass names get any number. An Ingress "+
			fmt.Sprintf("gets %d claims at most, and with more hosts none: what it serves is refused to others without.", exposure.MostEntries))
	flags.StringVar(&s.ClusterDomain, "cluster-domain", "cluster.local",
		"Domain of the cluster's own DNS names. No upstream outside the cluster has a name in it.")
	flags.BoolVar(&s.LoadBalancers.ByDefault, "default-load-balancer", false,
		"Serve Services of type LoadBalancer that have no loadBalancerClass, too.")
	s.LoadBalancers.Reserved = loadbalancer.DefaultReserved()
	flags.Var(&s.LoadBalancers.Reserved, "reserved-node-ports",
		"Ports of the nodes that no Service gets, ports or ranges separated by commas.")
	flags.IntVar(&s.LoadBalancers.MaxPorts, "max-ports-per-service", 100,
		"How many ports one Service of type LoadBalancer gets where it shares addresses, or the nodes, with others; 0 for any number. "+
			"Services that a StreamIngressClass names get any number.")
	flags.Var(&s.Guard, "guard", fmt.Sprintf("What becomes of doors that others open where somebody else has the point: "+
		"KIND=ACTION, separated by commas, with the kinds %v, or all, and the actions %s and %s. Needs the webhooks of config/guard.",
		guard.Kinds(), guard.Deny, guard.Warn))
}

// Validate says what can't be decided by.
func (s *Settings) Validate() error {
	var errs []error
	if s.MaxHTTPPoints < 0 || s.LoadBalancers.MaxPorts < 0 {
		errs = append(errs, errors.New("--max-http-points-per-service and --max-ports-per-service must not be negative"))
	}
	if err := s.Exposure.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--ingress-class, --ingress-host: %w", err))
	}
	return errors.Join(errs...)
}

// NewView indexes a cache, and makes a view of it that decides by the settings: NewView says more. mapper tells which kinds are installed,
// and namespace where the replicas run, empty where they do not. live reads past the cache.
func (s *Settings) NewView(
	ctx context.Context, cached cache.Cache, live client.Reader, mapper meta.RESTMapper, namespace string,
) (*View, error) {
	exposing := Exposing{Defaults: s.Exposure, MaxHTTPPoints: s.MaxHTTPPoints, Mapper: mapper, Namespace: namespace}
	if err := AddIndexes(ctx, cached); err != nil {
		return nil, err
	}
	if err := AddExposureIndexes(ctx, cached, exposing); err != nil {
		return nil, err
	}
	if err := AddLoadBalancerIndexes(ctx, cached, s.LoadBalancers); err != nil {
		return nil, err
	}
	view, err := NewView(ctx, cached, live)
	if err != nil {
		return nil, err
	}
	view.Ingresses.Expose(exposing)
	view.Gateways.IndexBy(cached)
	view.Gateways.Guard(s.Guard)
	view.Hosts.Guarded = s.Guard
	view.ExternalIPs.Guarded = s.Guard.Guards(guard.ExternalIPs)
	view.LoadBalancers.Options = s.LoadBalancers
	view.Streams.Domain = s.ClusterDomain
	return view, nil
}
