// Portcullis guards and opens the outer gates of a Kubernetes cluster.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	o, err := parseOptions(os.Args[0], os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag set has said why
	}
	if o.version {
		_, _ = fmt.Fprintln(os.Stdout, "portcullis", version)
		return
	}
	ctrl.SetLogger(o.logger())
	economize(garbagePercentAtFirst)
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "portcullis ended")
		os.Exit(1)
	}
}
