// kubectl-portcullis is a plugin of kubectl: which conflicts a cluster has, who has which door, and what applying manifests says. It moves
// streams from class to class, too.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"jeffthecoder.xyz/portcullis/plugin"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends it at once
	status := plugin.Run(ctx, os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, version)
	stop()
	os.Exit(status)
}
