package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

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

// buildPortcullis builds the image of Portcullis as its users do, loads it into the cluster, and returns its name.
func buildPortcullis(script string) (string, error) {
	// A name of its own, so that a cluster that is up already does not go on with the image of an earlier run.
	image := fmt.Sprintf("localhost/portcullis:e2e-%d", time.Now().Unix())
	return image, inOrder(
		func() error {
			return command("make", "-C", root, "image", "IMG="+image, "PLATFORMS=linux/"+runtime.GOARCH, "PUSH=")
		},
		func() error { return command(script, "load", filepath.Join(root, "bin", "portcullis-image.tar")) },
	)
}

// installCertManager installs cert-manager's real controllers and its real cainjector, unless cert-manager is there.
func installCertManager(script string) error {
	if exec.Command(script, "kubectl", "get", "deployment", "-n", "cert-manager", "cert-manager").Run() == nil {
		return nil
	}
	module := filepath.Join(root, "test", "certmanager")
	sources, err := sourcesOf(module, "github.com/cert-manager/cert-manager")
	if err != nil {
		return err
	}
	crds := filepath.Join(sources, "deploy", "crds")
	return inOrder(
		func() error {
			return loadProgram(script, "localhost/cert-manager:e2e", "/cert-manager", module, "./server")
		},
		func() error { return command(script, "kubectl", "apply", "--server-side", "-f", crds) },
		func() error {
			return command(script, "kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout="+patience.String())
		},
		func() error {
			return command(script, "kubectl", "apply", "-f", filepath.Join(module, "server", "deploy.yaml"))
		},
		func() error {
			return command(script, "kubectl", "-n", "cert-manager", "rollout", "status", "deployment/cert-manager", "--timeout="+patience.String())
		},
	)
}

// sourcesOf is the directory with the sources of a module, in the version that the module in a directory of ours pins. They are downloaded
// if need be: go list would name no directory then.
func sourcesOf(dir, module string) (string, error) {
	out, err := exec.Command("go", "-C", dir, "mod", "download", "-json", module).Output()
	var said struct{ Dir, Error string } // in JSON, also when it fails
	if unread := json.Unmarshal(out, &said); err != nil || unread != nil {
		return "", fmt.Errorf("downloading the sources of %s: %w %s", module, cmp.Or(err, unread), said.Error)
	}
	return said.Dir, nil
}

// loadProgram compiles a program of a module that the module in a directory of ours pins, and loads it into the nodes as an image.
func loadProgram(script, image, path, dir, program string) error {
	out, err := os.MkdirTemp("", "program-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	binary := filepath.Join(out, filepath.Base(path))
	return inOrder(
		func() error { return command("go", "-C", dir, "build", "-ldflags=-s -w", "-o", binary, program) },
		func() error { return load(script, image, binary, path) },
	)
}

// load makes an image of one static program and loads it into the nodes.
func load(script, image, binary, path string) error {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "image.tar")
	return inOrder(
		func() error {
			return command(filepath.Join(filepath.Dir(script), "mkimage"), archive, image, path, binary+":"+path)
		},
		func() error { return command(script, "load", archive) },
	)
}

// deploy deploys an overlay, and undeploy takes it away, as a platform team would.
func deploy(overlay string) error {
	return inOrder(
		func() error { return command("make", making("deploy", overlay)...) },
		func() error {
			return kubectlCommand("-n", "portcullis-system", "rollout", "status", "deployment/portcullis", "--timeout="+patience.String())
		},
		awaitAdmission,
		waitLong,
	)
}

func undeploy(overlay string) error { return command("make", making("undeploy", overlay)...) }

func making(what, overlay string) []string {
	return []string{"-C", root, what, "OVERLAY=" + overlay, "IMG=" + target.image, "KUBECTL=" + strings.Join(target.kubectl, " ")}
}

// awaitAdmission waits until the API server gets answers: the authority in the webhook configuration, and where the
// replicas are, reach it a moment after they are ready.
func awaitAdmission() error {
	const probe = `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: e2e-probe, namespace: default}
spec: {className: e2e-there-is-no-such-class, upstream: {service: probe, port: 1}}
`
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		if _, err = tryKubectl(probe, "create", "--dry-run=server", "-f", "-"); err != nil && strings.Contains(err.Error(), "spec.className") {
			return nil
		}
	}
	return fmt.Errorf("the API server does not ask Portcullis: %w", err)
}

// kubectlCommand runs kubectl and shows what it says.
func kubectlCommand(args ...string) error {
	return command(target.kubectl[0], slices.Concat(target.kubectl[1:], args)...)
}

// inOrder takes steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
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
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0") // images hold nothing but the program
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
