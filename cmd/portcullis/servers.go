package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/certs"
	"jeffthecoder.xyz/portcullis/internal/httpserver"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// mostConnections is how many connections are open at a time to each of the ports for metrics and probes. The kubelet, or Prometheus,
// needs one or two.
const mostConnections = 64

// secured is how ports are served over TLS.
func secured(serving *certs.Serving) *tls.Config {
	return &tls.Config{
		GetCertificate: serving.GetCertificate,
		// HTTP/2 would put all requests of an API server on one connection, and so on one replica.
		NextProtos: []string{"http/1.1"},
		MinVersion: tls.VersionTLS12,
	}
}

// addServers adds what serves metrics and probes. The manager's own servers would take any number of connections.
func addServers(mgr manager.Manager, o *options, serving *certs.Serving, view *kube.View) error {
	probes := http.NewServeMux()
	handle(probes, "/healthz", map[string]healthz.Checker{"ping": healthz.Ping})
	handle(probes, "/readyz", readiness(mgr, serving, view))
	if err := addServer(mgr, "probes", o.probeAddress, nil, probes); err != nil {
		return err
	}
	measured := http.NewServeMux()
	all := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{})
	if !o.metricsSecure {
		measured.Handle("/metrics", all)
		return addServer(mgr, "metrics", o.metricsAddress, nil, measured)
	}
	readers, err := newMetricsReaders(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	measured.Handle("/metrics", readers.filter(mgr.GetLogger().WithName("metrics"), all))
	return addServer(mgr, "metrics", o.metricsAddress, secured(serving), measured)
}

// addServer adds a server, unless its address is 0.
func addServer(mgr manager.Manager, name, address string, secure *tls.Config, handler http.Handler) error {
	if cmp.Or(address, "0") == "0" {
		return nil
	}
	listener, err := httpserver.Listen(address, secure, mostConnections)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return mgr.Add(httpserver.New(name, listener, handler))
}

// handle serves checks at a path, and each by its name below it.
func handle(mux *http.ServeMux, path string, checks map[string]healthz.Checker) {
	all := http.StripPrefix(path, &healthz.Handler{Checks: checks})
	mux.Handle(path, all)
	mux.Handle(path+"/", all)
}

// readiness says when the process can decide.
func readiness(mgr manager.Manager, serving *certs.Serving, view *kube.View) map[string]healthz.Checker {
	return map[string]healthz.Checker{
		"certificate": serving.Check,
		"caches": func(*http.Request) error {
			if !view.Synced() {
				return errors.New("the cluster is still being read")
			}
			return nil
		},
		"guard": view.Gateways.CheckRead,
		"webhook": func(req *http.Request) error {
			if err := serving.Check(req); err != nil {
				return err // dialing would only log a failed handshake
			}
			return mgr.GetWebhookServer().StartedChecker()(req)
		},
	}
}
