package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"jeffthecoder.xyz/portcullis/internal/httpserver"
)

// mostConnections is how many connections to the port of the webhooks are open at a time. An API server has 600 requests in flight
// at most, unless it is told otherwise, and most of those read. So many connections with the worst of headers take some 200 MiB.
const mostConnections = 768

// NewServer serves webhooks on an address (host:port), over TLS as secure says. When it is told to stop it drains first.
func NewServer(address string, secure *tls.Config) webhook.Server {
	mux := http.NewServeMux()
	return newDraining(&server{
		Server: webhook.NewServer(webhook.Options{WebhookMux: mux}), mux: mux, address: address, secure: secure,
	})
}

// server is controller-runtime's as far as webhooks are registered with it and measured. It listens by itself, for a bound on
// connections.
type server struct {
	webhook.Server
	mux     *http.ServeMux
	address string
	secure  *tls.Config
	started atomic.Bool
}

// Start implements webhook.Server.
func (s *server) Start(ctx context.Context) error {
	listener, err := httpserver.Listen(s.address, s.secure, mostConnections)
	if err != nil {
		return err
	}
	s.started.Store(true)
	return httpserver.New("webhook", listener, s.mux).Start(ctx)
}

// StartedChecker implements webhook.Server: it passes when a connection can be made.
func (s *server) StartedChecker() healthz.Checker {
	return func(req *http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not been started")
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(req.Context(), "tcp", s.address)
		if err != nil {
			return fmt.Errorf("the webhook server can't be reached: %w", err)
		}
		return conn.Close()
	}
}
