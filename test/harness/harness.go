// Package harness runs Portcullis as users do, for tests and benchmarks: a real control plane, the manifests of
// config/, and one or more processes of the real binary behind one webhook configuration, each with the rights of its
// ServiceAccount.
package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// User is the name under which the replicas speak to the API server.
const User = "system:serviceaccount:portcullis-system:portcullis"

// Groups are those of User, a ServiceAccount in portcullis-system.
var Groups = []string{"system:serviceaccounts", "system:serviceaccounts:portcullis-system", "system:authenticated"}

// startAttempts is how often a start is tried when the control plane ends under it.
const startAttempts = 3

// Options say how Portcullis is run.
type Options struct {
	// ControlPlane is how the control plane is started.
	ControlPlane controlplane.Options
	// Replicas to start at once; 0 for none, StartReplica starts them later.
	Replicas int
	// Flags are added to those of every replica.
	Flags []string
	// Env is added to the environment of every replica, each "name=value".
	Env []string
	// WebhookTimeout is how many seconds the API server waits for an answer; 0 for as long as config/ says. A machine that
	// is shared with others can stand still for longer than that.
	WebhookTimeout int64
	// WithoutGatewayAPI leaves out the CRD of ReferenceGrants; InstallGatewayAPI applies it later.
	WithoutGatewayAPI bool
	// Guard adds the component config/guard, and what it guards of the Gateway API; the flag is that of Flags, or to deny everything.
	Guard bool
	// Binary is an already built one; empty to build it.
	Binary string
	// Templates are what control planes begin with; nil to install all of it into this one.
	Templates *Templates
}

// Harness is a running Portcullis.
type Harness struct {
	*controlplane.ControlPlane
	// Client may do everything, and reads no cache.
	Client client.Client
	// Replicas are the processes, by the order in which they were started.
	Replicas []*Replica

	opts   Options
	dir    string
	binary string
	front  *Balancer
}

// Scheme knows every kind that tests use.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1beta1.AddToScheme, gatewayv1.Install, gatewayv1beta1.Install,
	} {
		if err := add(scheme); err != nil {
			panic(err) // the kinds are constants
		}
	}
	return scheme
}

// Start starts a control plane, applies the standalone overlay with the webhooks pointed at this machine, and starts
// the replicas. It returns when all of them are ready. Stop ends everything.
//
// Should a program of the control plane end by itself meanwhile, which is none of Portcullis' doing, its last words go to standard
// error, and all begins anew, a few times.
func Start(ctx context.Context, opts Options) (*Harness, error) {
	for attempt := 1; ; attempt++ {
		h := &Harness{opts: opts, binary: opts.Binary}
		err := h.start(ctx)
		if err == nil {
			return h, nil
		}
		gone := h.Gone(ctx)
		err = errors.Join(err, gone, h.Stop())
		if gone == nil || attempt == startAttempts {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "starting anew: %v\n", err)
	}
}

func (h *Harness) start(ctx context.Context) error {
	var err error
	if h.dir, err = os.MkdirTemp("", "portcullis-harness-"); err != nil {
		return err
	}
	if h.binary == "" {
		if h.binary, err = Build(ctx, h.dir); err != nil {
			return err
		}
	}
	if h.opts.Templates.fit(h.opts) {
		if h.opts.ControlPlane.From, err = h.opts.Templates.of(ctx, h.opts); err != nil {
			return err
		}
	}
	if h.ControlPlane, err = controlplane.Start(ctx, h.opts.ControlPlane); err != nil {
		return err
	}
	if h.Client, err = client.New(h.Config(), client.Options{Scheme: Scheme()}); err != nil {
		return err
	}
	if h.front, err = NewBalancer(); err != nil {
		return err
	}
	if err := h.install(ctx); err != nil {
		return err
	}
	for range h.opts.Replicas {
		if _, err := h.StartReplica(ctx); err != nil {
			return err
		}
	}
	return h.awaitWebhook(ctx)
}

// Build builds the binary into a directory and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "portcullis")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/portcullis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building portcullis: %w\n%s", err, out)
	}
	return binary, nil
}

// install applies what `make deploy OVERLAY=standalone` would, and what is asked for of the Gateway API: all of it at once, as each
// client first asks the API server for its kinds.
func (h *Harness) install(ctx context.Context) error {
	objects, err := h.render()
	if err != nil {
		return err
	}
	if err := controlplane.PointWebhooks(objects, h.front.Address()); err != nil {
		return err
	}
	if h.opts.WebhookTimeout > 0 {
		if err := controlplane.EachWebhook(objects, func(webhook map[string]any) error {
			webhook["timeoutSeconds"] = h.opts.WebhookTimeout
			return nil
		}); err != nil {
			return err
		}
	}
	var plurals []string
	if !h.opts.WithoutGatewayAPI {
		plurals = append(plurals, read...)
		if h.opts.Guard {
			plurals = slices.Concat(plurals, served, guarded)
		}
	}
	kinds, err := gatewayKinds(plurals...)
	if err != nil {
		return err
	}
	objects = append(objects, kinds...)
	if h.opts.ControlPlane.From != "" { // most is there
		if err := controlplane.AwaitKinds(ctx, h.Config(), objects...); err != nil {
			return err
		}
		objects = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !isOwn(object) })
	}
	return controlplane.Apply(ctx, h.Config(), "install", objects...)
}

// render returns the objects of the standalone overlay, and of the components that are asked for.
func (h *Harness) render() ([]*unstructured.Unstructured, error) {
	overlay := standalone
	if h.opts.Guard {
		h.opts.Flags = append([]string{"--guard=all=Deny"}, h.opts.Flags...)
		overlay = standaloneWithGuard
	}
	objects, err := overlay()
	return copies(objects), err
}

// What is installed is the same for all of a program's tests: it is made once, and each is given copies.
var (
	standalone = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
		return controlplane.Render(context.Background(), "config/overlays/standalone")
	})
	standaloneWithGuard = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
		dir, err := os.MkdirTemp("", "portcullis-harness-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		return controlplane.RenderText(context.Background(), dir, "resources: [%s/overlays/standalone]\ncomponents: [%s/guard]\n")
	})
	gatewayAPI = sync.OnceValues(func() (map[string][]*unstructured.Unstructured, error) {
		dir, err := PinnedDir(context.Background(), "", "sigs.k8s.io/gateway-api")
		if err != nil {
			return nil, err
		}
		const prefix, suffix = "gateway.networking.k8s.io_", ".yaml"
		files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "standard", prefix+"*"+suffix))
		if err != nil {
			return nil, err
		}
		kinds := map[string][]*unstructured.Unstructured{}
		for _, file := range files {
			plural := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), prefix), suffix)
			if kinds[plural], err = controlplane.ReadFile(file); err != nil {
				return nil, err
			}
		}
		return kinds, nil
	})
)

// The kinds of the Gateway API, by their plurals: those that Portcullis reads while no class has a Gateway, those that classes
// with a Gateway need, and those whose hosts are guarded.
var (
	read    = []string{"referencegrants"}
	served  = []string{"gatewayclasses", "gateways", "listenersets", "tcproutes", "udproutes"}
	guarded = []string{"tlsroutes", "httproutes", "grpcroutes"}
)

// gatewayKinds returns the CRDs of some kinds of the Gateway API.
func gatewayKinds(plurals ...string) ([]*unstructured.Unstructured, error) {
	all, err := gatewayAPI()
	if err != nil {
		return nil, err
	}
	var crds []*unstructured.Unstructured
	for _, plural := range plurals {
		crd, known := all[plural]
		if !known {
			return nil, fmt.Errorf("the Gateway API has no %s here", plural)
		}
		crds = append(crds, copies(crd)...)
	}
	return crds, nil
}

func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	copied := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		copied = append(copied, object.DeepCopy())
	}
	return copied
}

// InstallGatewayAPI applies what Portcullis reads of the Gateway API while no class has a Gateway: the CRD of ReferenceGrants.
func (h *Harness) InstallGatewayAPI(ctx context.Context) error {
	return h.InstallGatewayKinds(ctx, read...)
}

// InstallGateways applies what classes with a Gateway need of the Gateway API.
func (h *Harness) InstallGateways(ctx context.Context) error {
	return h.InstallGatewayKinds(ctx, served...)
}

// InstallGatewayKinds applies the CRDs of some kinds of the Gateway API, by their plurals.
func (h *Harness) InstallGatewayKinds(ctx context.Context, plurals ...string) error {
	crds, err := gatewayKinds(plurals...)
	if err != nil {
		return err
	}
	return controlplane.Apply(ctx, h.Config(), "install", crds...)
}

// PinnedDir is where the sources of a module are that another one pins, whose directory is seen from the root of the repository. They are
// downloaded if need be, and are those of its go.sum.
func PinnedDir(ctx context.Context, pinnedBy, module string) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	download.Dir = filepath.Join(root, pinnedBy)
	out, err := download.Output()
	var said struct{ Dir, Error string } // in JSON, also when it fails
	if unread := json.Unmarshal(out, &said); err != nil || unread != nil {
		return "", fmt.Errorf("downloading the module %s: %w %s", module, cmp.Or(err, unread), said.Error)
	}
	return said.Dir, nil
}

// awaitWebhook waits until the API server calls the webhooks: it learns of them, and of their CA, a moment later.
func (h *Harness) awaitWebhook(ctx context.Context) error {
	if len(h.Replicas) == 0 {
		return nil
	}
	probe := &v1beta1.StreamIngress{}
	probe.Namespace, probe.Name = "default", "probe"
	probe.Spec.ClassName = "there-is-no-such-class"
	probe.Spec.Upstream.Service = "probe"
	probe.Spec.Upstream.Port.IntVal = 1
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = h.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return last != nil && client.IgnoreNotFound(last) != nil && isInvalid(last), nil
	})
	if err != nil {
		return fmt.Errorf("the API server does not call the webhook: %w", errors.Join(err, last))
	}
	return nil
}

// Stop ends all replicas and the control plane, and removes what they left.
func (h *Harness) Stop() error {
	var errs []error
	for _, r := range h.Replicas {
		errs = append(errs, r.Kill())
	}
	if h.front != nil {
		errs = append(errs, h.front.Close())
	}
	if h.ControlPlane != nil {
		errs = append(errs, h.ControlPlane.Stop())
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}
