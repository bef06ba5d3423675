package httpserver

import (
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// mostHeader is how long the header of a request may be, in bytes; net/http lets 4,096 more pass. Requests of API servers have a
	// few hundred, and those with a token one or two thousand. net/http by itself takes a mebibyte from everybody, and keeps many
	// times what it takes when the lines are short.
	mostHeader = 2 << 10
	// readHeaderTimeout is how long a client may take for the handshake, and for the header: API servers give up after 30 s at the latest.
	readHeaderTimeout = 32 * time.Second
	// idleTimeout is how long a connection may be without a request; that is for how long Go's clients keep one.
	idleTimeout = 90 * time.Second
)

// shutdownTimeout is how long requests that are being answered have when a server is told to stop.
var shutdownTimeout = time.Minute

// New answers what comes on a listener with handler. It runs by itself, or as the manager's: then from before the caches are read
// until all else has stopped. Name is for the log.
func New(name string, listener net.Listener, handler http.Handler) *manager.Server {
	return &manager.Server{
		Name: name,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: mostHeader, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
			ErrorLog: log.New(errorLog{ctrl.Log.WithName(name)}, "", 0), //nolint:forbidigo // net/http takes no other
		},
		Listener:        listener,
		ShutdownTimeout: &shutdownTimeout,
	}
}

// errorLog is what net/http writes its errors to.
type errorLog struct{ logr.Logger }

// Write implements io.Writer. A handshake that fails is for who debugs: any Pod can have it fail, as often as it likes.
func (l errorLog) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	if strings.Contains(message, "TLS handshake error") {
		l.V(1).Info(message)
	} else {
		l.Error(nil, message)
	}
	return len(line), nil
}
