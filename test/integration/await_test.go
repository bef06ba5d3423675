package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// patience is how long a test waits for what should come within moments: machines are busy, and only what never comes
// has to wait this long.
const patience = 5 * time.Minute

// fixture is a running Portcullis as one test sees it. Whatever should not fail ends the test when it does.
type fixture struct {
	*harness.Harness
	t *testing.T
}

// newFixture is a Portcullis for one test.
func newFixture(t *testing.T, h *harness.Harness) *fixture { return &fixture{Harness: h, t: t} }

// pace is how long to wait until the next try. There are fewer the longer it takes, and the longer one takes: they cost the API server, and
// with it all tests, time, and would be what keeps a busy machine busy.
type pace time.Duration

// wait waits after a try that began then.
func (p *pace) wait(began time.Time) {
	const longest, takesAQuarter, longestForThat = 500 * time.Millisecond, 3, 10 * time.Second
	time.Sleep(max(time.Duration(*p), min(takesAQuarter*time.Since(began), longestForThat)))
	*p = max(*p, min(*p*5/4, pace(longest)))
}

// eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func (w *fixture) eventually(what string, check func() error) {
	w.t.Helper()
	var err error
	next := pace(20 * time.Millisecond)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		began := time.Now()
		if err = check(); err == nil {
			return
		}
		if w.t.Context().Err() != nil {
			break
		}
		next.wait(began)
	}
	w.t.Fatalf("waiting for %s: %v", what, err)
}

// is says, as an error, that a value is not the wanted one.
func is[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// try creates objects in order and returns the first error.
func (w *fixture) try(objects ...client.Object) error {
	for _, object := range objects {
		if err := w.Client.Create(w.t.Context(), object); err != nil {
			return err
		}
	}
	return nil
}

// create creates objects.
func (w *fixture) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.try(object); err != nil {
			w.t.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// untilStored does what has to work, again while it is refused for a moment only, as the refusal says: an object of who hands over may have
// been admitted, and not be seen stored by all replicas yet.
func (w *fixture) untilStored(what string, do func() error) {
	w.t.Helper()
	w.eventually(what, func() error {
		err := do()
		if err != nil && !(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "and not be stored yet: try again")) {
			w.t.Fatalf("%s: %v", what, err)
		}
		return err
	})
}

// get reads objects anew.
func (w *fixture) get(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			w.t.Fatalf("reading %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// delete deletes objects; those that are gone are no error.
func (w *fixture) delete(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Client.Delete(w.t.Context(), object); client.IgnoreNotFound(err) != nil {
			w.t.Fatalf("deleting %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// tryEdit changes the stored object, again when somebody else changed it meanwhile, and returns what the API server
// says. The object has the stored version then.
func tryEdit[T client.Object](w *fixture, object T, edit func(T)) error {
	return editBy(w.t.Context(), w.Client, object, edit)
}

// editBy is tryEdit by another client.
func editBy[T client.Object](ctx context.Context, c client.Client, object T, edit func(T)) error {
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit(object)
		if err := c.Update(ctx, object); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// edit changes the stored object.
func edit[T client.Object](w *fixture, object T, change func(T)) {
	w.t.Helper()
	if err := tryEdit(w, object, change); err != nil {
		w.t.Fatalf("changing %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// has waits until a stream's condition is as wanted, for example "True Accepted". The stream is read anew.
func (w *fixture) has(s *v1beta1.StreamIngress, kind, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s/%s to be %s: %s", s.Namespace, s.Name, kind, want), func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("status is of generation %d, want %d", s.Status.ObservedGeneration, s.Generation)
		}
		if got := condition(s.Status.Conditions, kind); got != want {
			return fmt.Errorf("got %s, in %v", got, s.Status.Conditions)
		}
		return nil
	})
}

// programmed waits until streams are programmed. They are read anew.
func (w *fixture) programmed(streams ...*v1beta1.StreamIngress) {
	w.t.Helper()
	for _, s := range streams {
		w.has(s, v1beta1.ConditionProgrammed, "True Programmed")
	}
}

// classHas waits until a class's condition is as wanted. The class is read anew.
func (w *fixture) classHas(c *v1beta1.StreamIngressClass, kind, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("class %s to be %s: %s", c.Name, kind, want), func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if got := condition(c.Status.Conditions, kind); got != want || c.Status.ObservedGeneration != c.Generation {
			return fmt.Errorf("got %s, in %v", got, c.Status.Conditions)
		}
		return nil
	})
}

// holder is who holds a port of a class, in one line; empty when nobody does.
func (w *fixture) holder(class string, protocol v1beta1.Protocol, port int32) string {
	w.t.Helper()
	return w.pointHolder(claim.Stream(class, protocol, port).Name())
}

// pointHolder is who holds the point of a claim of that name, in one line; empty when nobody does.
func (w *fixture) pointHolder(name string) string {
	w.t.Helper()
	holder, err := w.readHolder(name)
	must(w, err)
	return holder
}

func (w *fixture) readHolder(name string) (string, error) {
	c := &v1beta1.EdgeClaim{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Name: name}, c); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return c.Spec.HeldBy, nil
}

// heldBy waits until a port of a class is held as wanted; with "" until nobody holds it.
func (w *fixture) heldBy(class string, protocol v1beta1.Protocol, port int32, want string) {
	w.t.Helper()
	w.pointHeldBy(claim.Stream(class, protocol, port).Name(), want)
}

// pointHeldBy waits until a point is held as wanted; with "" until nobody holds it.
func (w *fixture) pointHeldBy(name, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to be held by %q", name, want), func() error {
		holder, err := w.readHolder(name)
		return errors.Join(err, is(holder, want))
	})
}

// edge is a class with its proxy, in a namespace of its own.
type edge struct {
	*fixture
	class     *v1beta1.StreamIngressClass
	namespace string
}

// newEdge makes a class, its namespace "edge-<name>" and its proxy's Service with the foreign ports 80 and 443.
func (w *fixture) newEdge(name string, options ...classOption) *edge {
	w.t.Helper()
	e := &edge{fixture: w, namespace: "edge-" + name}
	e.class = streamClass(name, e.namespace, options...)
	w.create(namespace(e.namespace), e.proxy(), e.class)
	w.classHas(e.class, v1beta1.ConditionAccepted, "True Accepted")
	return e
}

// proxy is the proxy's Service as its owner wrote it.
func (e *edge) proxy() *corev1.Service {
	return service(e.namespace+"/proxy", port("http", 80), port("https", 443))
}

// answers says where the proxy sends the traffic of a port: the entry, when the port is open on the Service too.
// "closed" means neither; "no port: <entry>" and "no entry" mean that one is missing.
func (e *edge) answers(protocol v1beta1.Protocol, number int32) string {
	e.t.Helper()
	answer, err := e.readAnswer(protocol, number)
	must(e.fixture, err)
	return answer
}

func (e *edge) readAnswer(protocol v1beta1.Protocol, number int32) (string, error) {
	ref := e.class.ConfigMap(protocol)
	cm := configMap(ref.Namespace+"/"+ref.Name, nil)
	if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(cm), cm); client.IgnoreNotFound(err) != nil {
		return "", err
	}
	entry, entered := cm.Data[fmt.Sprint(number)]
	open := e.class.Spec.Service == nil && entered
	if ref := e.class.Spec.Service; ref != nil {
		svc := service(ref.Namespace + "/" + ref.Name)
		if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(svc), svc); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		open = slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Port == number && p.Protocol == corev1.Protocol(protocol)
		})
	}
	switch {
	case entered && open:
		return entry, nil
	case entered:
		return "no port: " + entry, nil
	case open:
		return "no entry", nil
	default:
		return "closed", nil
	}
}

// leads waits until a port's traffic goes where it should, in the words of answers.
func (e *edge) leads(protocol v1beta1.Protocol, number int32, want string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%s/%d of %s to lead to %q", protocol, number, e.class.Name, want), func() error {
		answer, err := e.readAnswer(protocol, number)
		return errors.Join(err, is(answer, want))
	})
}

// kubectl runs the real kubectl with a manifest as its standard input, and returns both outputs. The error is its exit
// code.
func (w *fixture) kubectl(manifest string, args ...string) (string, error) {
	w.t.Helper()
	programs, err := assets()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(programs, "kubectl"), append([]string{"--kubeconfig=" + w.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(manifest)
	// Discovery is cached on the disk by host and port, and ports are used again by other control planes.
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(w.Dir(), "kubectl-cache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// mustKubectl runs kubectl, which has to succeed.
func (w *fixture) mustKubectl(manifest string, args ...string) string {
	w.t.Helper()
	out, err := w.kubectl(manifest, args...)
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// assets is the directory of the control plane's programs.
var assets = sync.OnceValues(func() (string, error) { return controlplane.Assets(context.Background()) })

// awaitRight waits until the API server lets a user do something, or does so no longer. What roles and bindings say counts a
// moment after they are written, and later on a busy machine.
func (w *fixture) awaitRight(user string, allowed bool, what *authorizationv1.ResourceAttributes) {
	w.t.Helper()
	w.awaitReview(allowed, authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: what})
}

// awaitReview waits until the API server answers yes, or no, to a question for a user's rights.
func (w *fixture) awaitReview(allowed bool, spec authorizationv1.SubjectAccessReviewSpec) {
	w.t.Helper()
	w.eventually("the rights of "+spec.User+" to be as they were written", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		if err := w.Client.Create(w.t.Context(), review); err != nil {
			return err
		}
		return is(review.Status.Allowed, allowed)
	})
}

// refusal is the status of an Invalid error, and fails the test when err is anything else.
func (w *fixture) refusal(err error) *apierrors.StatusError {
	w.t.Helper()
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		w.t.Fatalf("want an Invalid refusal, got %v", err)
	}
	return status
}

// mustContain fails the test for each text that is missing.
func mustContain(t *testing.T, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("%q is missing in:\n%s", text, in)
		}
	}
}
