// Package e2e tests Portcullis on a real cluster, as its users do: with kubectl. The environment says which cluster:
//
//	KUBECONFIG  the cluster, on which Portcullis has to run already, if not the one that kubectl talks to by itself
//	OVERLAY     deploy this overlay of config/overlays first, with the image IMG
//	KUBECTL     the kubectl to use, if not the one on the PATH, with its arguments
//	PAUSE       an image that does nothing until it is told to end, and that the nodes can pull or have, if not Kubernetes' own
//
// Where there is no cluster yet, CLUSTER names a script that makes one ("up 2", "kubectl ...", "load image.tar", "node 1
// ...", "kill-node 1", "down"), with a script mkimage beside it that makes an image from files. Then everything is done
// here: the cluster is started, unless it is up, cert-manager is installed, Portcullis is built and deployed with the
// overlay default, and a cluster that was started is put down in the end, unless KEEP is set. Only there processes are
// killed and a node is lost.
package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// target is the cluster under test.
var target struct {
	// script is what made it, empty when that was somebody else.
	script string
	// kubectl is the command that speaks to it, and pause an image that it can run.
	kubectl []string
	pause   string
	// overlay and image are what was deployed here, empty when that was somebody else.
	overlay, image string
	// waits are how many seconds the API server waits at most for each webhook, as the manifests that were deployed here have it.
	waits []int
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// run prepares the cluster, runs the tests, and puts away what it made.
func run(m *testing.M) (code int, err error) {
	target.script, target.overlay, target.image = os.Getenv("CLUSTER"), os.Getenv("OVERLAY"), os.Getenv("IMG")
	target.kubectl = strings.Fields(cmp.Or(os.Getenv("KUBECTL"), "kubectl"))
	target.pause = os.Getenv("PAUSE")
	if target.script == "" {
		target.pause = cmp.Or(target.pause, "registry.k8s.io/pause:3.10")
		if err := kubectlCommand("cluster-info"); err != nil { // shows which one it is
			return 1, fmt.Errorf("there is no cluster to test on: name it by KUBECONFIG, or by CLUSTER a script that makes one: %w", err)
		}
	} else {
		target.kubectl = []string{target.script, "kubectl"}
		target.pause = cmp.Or(target.pause, "localhost/pause:1")
		target.overlay = cmp.Or(target.overlay, "default")
		down, err := up(target.script)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, down()) }()
		if err := supply(target.script); err != nil {
			return 1, err
		}
	}
	if target.overlay != "" {
		if err := deploy(target.overlay); err != nil {
			return 1, err
		}
	} else if err := awaitAdmission(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// needs leaves a test out on a cluster that does not have what it needs. Where everything has to run, that is a failure.
func needs(t *testing.T, has bool, why string) {
	t.Helper()
	switch {
	case has:
	case os.Getenv("CI") != "":
		t.Fatalf("CI leaves nothing out: %s", why)
	default:
		t.Skip(why)
	}
}

// supply puts into the script's cluster what Portcullis is deployed with.
func supply(script string) (err error) {
	if target.image == "" {
		if target.image, err = buildPortcullis(script); err != nil {
			return err
		}
	}
	if target.overlay == "default" {
		return installCertManager(script)
	}
	return nil
}
