// Command run is what `make run` starts: a control plane with controllers on this machine, Portcullis connected to it, and
// a few samples, all in the foreground. Its data stays in .run; Ctrl-C ends everything that it started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

func main() {
	settings, err := parseSettings(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag set has said why
	}
	log.SetLogger(logr.Discard()) // the log is Portcullis' own
	// SIGHUP comes when the terminal is closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Without this, a pager or tee that ends first would take this process along before it has stopped the others.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err = newSession(settings, os.Stdout).run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make run:", explain(err))
		os.Exit(1)
	}
}

// explain adds what to do about an error that the user can mend.
func explain(err error) string {
	taken, ok := errors.AsType[*controlplane.PortTakenError](err)
	if !ok {
		return err.Error()
	}
	for _, port := range ports(&settings{}) {
		if port.use == taken.For {
			return fmt.Sprintf("%v.\nStop that process, or choose another port: make run %s=%d", taken, port.variable, taken.Port+1)
		}
	}
	return err.Error()
}

// settings are what the command line says.
type settings struct {
	clean                                        bool
	apiPort, webhookPort, healthPort, metricPort int
	// dir has the data, binary is Portcullis, extra are further flags for it.
	dir, binary string
	extra       []string
}

// port is one port that has to be free, with the variable of `make run` that moves it.
type port struct {
	number        *int
	fallback      int
	flag, use     string
	variable, tip string
}

// ports are all ports of a run: the usual ones of such servers and 10000 more, so that they are not taken by a cluster
// on the same machine.
func ports(s *settings) []port {
	return []port{
		{&s.apiPort, 16443, "api-port", "the API server", "API_PORT", "port of the API server"},
		{&s.webhookPort, 19443, "webhook-port", "the webhooks", "WEBHOOK_PORT", "port of Portcullis' webhooks"},
		{&s.healthPort, 18081, "health-port", "the health probes", "HEALTH_PORT", "port of Portcullis' /healthz and /readyz"},
		{&s.metricPort, 18080, "metrics-port", "the metrics", "METRICS_PORT", "port of Portcullis' /metrics"},
	}
}

// parseSettings reads the command line. Errors are written to out.
func parseSettings(args []string, out *os.File) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolFunc("clean", "drop the data of earlier runs first", func(value string) error {
		s.clean = value != "" && value != "0" && value != "false"
		return nil
	})
	for _, p := range ports(s) {
		flags.IntVar(p.number, p.flag, p.fallback, p.tip)
	}
	flags.StringVar(&s.dir, "dir", ".run", "directory of the data")
	flags.StringVar(&s.binary, "portcullis", "bin/portcullis", "the program to run")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	s.extra = flags.Args()
	return s, nil
}
