package httpserver

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// mostHeader is how long the header of a request may be, in bytes; net/http lets 4,096 more pass. Requests of API servers have a
	// few hundred, and those with a token one or two thousand. net/http by itself takes a mebibyte from everybody, and keeps many
	// times what it takes when the lines are short.
	mostHeader = 2 << 10
	// readTimeout is how long a client may take for the handshake, and for a request: API servers give up after 30 s at the latest.
	readTimeout = 32 * time.Second
	// idleTimeout is how long a connection may be without a request; that is for how long Go's clients keep one.
	idleTimeout = 90 * time.Second
)

// shutdownTimeout is how long requests that are being answered have when a server is told to stop.
var shutdownTimeout = time.Minute

// New answers what comes on a listener of Listen with handler. It runs by itself, or as the manager's: then from before the caches are read
// until all else has stopped. Name is for the log.
func New(name string, listener net.Listener, handler http.Handler) *manager.Server {
	return &manager.Server{
		Name: name,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: mostHeader, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
			// net/http by itself does not notice that a connection is closed here while a body is unread, or more has come than a
			// request: who does not read on would be answered in vain, any number of times.
			ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				context.AfterFunc(connectionOf(conn).ctx, cancel)
				return ctx
			},
			ConnState: func(conn net.Conn, state http.ConnState) { connectionOf(conn).busy.Store(state == http.StateActive) },
			ErrorLog:  log.New(newErrorLog(ctrl.Log.WithName(name)), "", 0), //nolint:forbidigo // net/http takes no other
		},
		Listener:        listener,
		ShutdownTimeout: &shutdownTimeout,
	}
}

// connectionOf is what is beneath a connection that a server has of a listener of Listen.
func connectionOf(conn net.Conn) *connection {
	if secured, is := conn.(*tls.Conn); is {
		conn = secured.NetConn()
	}
	return conn.(*connection)
}

// errorLog is what net/http writes its errors to.
type errorLog struct {
	logr.Logger
	handshakes *rate.Sometimes
}

func newErrorLog(log logr.Logger) errorLog {
	return errorLog{log, &rate.Sometimes{Interval: time.Minute}}
}

// Write implements io.Writer. Of handshakes that fail one a minute is told, others only to who debugs: they tell of a certificate that is
// not trusted, but any Pod can have them fail, as often as it likes.
func (l errorLog) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	if !strings.Contains(message, "TLS handshake error") {
		l.Error(nil, message)
		return len(line), nil
	}
	level := 1
	l.handshakes.Do(func() { level = 0 })
	l.V(level).Info(message)
	return len(line), nil
}
