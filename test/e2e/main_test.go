// Package e2e tests Portcullis on a real cluster, as its users do: with kubectl. The environment says which cluster:
//
//	KUBECONFIG  the cluster, on which Portcullis has to run already
//	OVERLAY     deploy this overlay of config/overlays first, with the image IMG
//	KUBECTL     the kubectl to use, if not the one on the PATH
//	PAUSE       an image that does nothing until it is told to end, and that the nodes can pull or have
//
// Where there is no cluster yet, CLUSTER names a script that makes one ("up 2", "kubectl ...", "load image.tar", "down"),
// with a script mkimage beside it that makes an image from files. Then everything is done here: the cluster is started,
// unless it is up, Portcullis is built and deployed with the overlay standalone, and a cluster that was started is put
// down in the end, unless KEEP is set.
package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// root is the root of the repository.
const root = "../.."

// target is the cluster under test.
var target struct {
	// kubectl is the command that speaks to it, and pause an image that it can run.
	kubectl []string
	pause   string
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
	script, overlay, image := os.Getenv("CLUSTER"), os.Getenv("OVERLAY"), os.Getenv("IMG")
	target.kubectl = strings.Fields(cmp.Or(os.Getenv("KUBECTL"), "kubectl"))
	target.pause = os.Getenv("PAUSE")
	switch {
	case script != "":
		target.kubectl = []string{script, "kubectl"}
		target.pause = cmp.Or(target.pause, "localhost/pause:1")
		overlay = cmp.Or(overlay, "standalone")
		down, err := up(script)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, down()) }()
		if image == "" {
			if image, err = buildImage(script); err != nil {
				return 1, err
			}
		}
	case os.Getenv("KUBECONFIG") == "" || target.pause == "":
		return 1, errors.New("KUBECONFIG has to name the cluster to test on and PAUSE an image, or CLUSTER a script that makes a cluster")
	}
	if overlay != "" {
		args := []string{"-C", root, "deploy", "OVERLAY=" + overlay, "IMG=" + image, "KUBECTL=" + strings.Join(target.kubectl, " ")}
		if err := command("make", args...); err != nil {
			return 1, err
		}
	}
	status := slices.Concat(target.kubectl, []string{"-n", "portcullis-system", "rollout", "status", "deployment/portcullis", "--timeout=3m"})
	if err := command(status[0], status[1:]...); err != nil {
		return 1, fmt.Errorf("portcullis does not run there: %w", err)
	}
	return m.Run(), nil
}

// up starts a cluster, unless one is up. down puts it down again, if it was started here.
func up(script string) (down func() error, err error) {
	if exec.Command(script, "kubectl", "get", "--raw=/readyz").Run() == nil {
		return func() error { return nil }, nil
	}
	down = func() error {
		if os.Getenv("KEEP") != "" {
			return nil
		}
		return command(script, "down")
	}
	if err := command(script, "up", "2"); err != nil {
		return nil, errors.Join(err, down())
	}
	return down, nil
}

// buildImage builds Portcullis, loads it into the cluster as an image, and returns the image's name.
func buildImage(script string) (string, error) {
	// A name of its own, so that a cluster that is up already does not go on with the image of an earlier run.
	image := fmt.Sprintf("localhost/portcullis:e2e-%d", time.Now().Unix())
	dir, err := os.MkdirTemp("", "portcullis-e2e-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "portcullis.tar")
	return image, errors.Join(
		command("make", "-C", root, "build"),
		command(filepath.Join(filepath.Dir(script), "mkimage"), archive, image, "/portcullis", root+"/bin/portcullis:/portcullis"),
		command(script, "load", archive),
	)
}

// command runs a program, and shows what it says.
func command(name string, args ...string) error {
	fmt.Println("+", name, strings.Join(args, " "))
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for _, variable := range os.Environ() {
		// A make that was started by make would wait for the first one's permission.
		if !strings.HasPrefix(variable, "MAKE") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
