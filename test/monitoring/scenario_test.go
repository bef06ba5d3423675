//go:build monitoring

package monitoring

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

//go:embed scene.yaml
var scene string

//go:embed asked.yaml
var asked string

// scenario is a cluster in which things happen.
type scenario struct {
	*harness.Harness
	t     *testing.T
	round int
}

// stage sets the scene.
func stage(t *testing.T, h *harness.Harness) *scenario {
	t.Helper()
	s := &scenario{Harness: h, t: t}
	s.apply(scene)
	eventually(t, "the class to be seen, and what users ask for", func() error {
		objects, err := controlplane.Decode(strings.NewReader(asked))
		if err != nil {
			return err
		}
		return controlplane.Apply(t.Context(), h.Config(), "user", objects...)
	})
	return s
}

func (s *scenario) apply(text string) {
	s.t.Helper()
	objects, err := controlplane.Decode(strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := controlplane.Apply(s.t.Context(), s.Config(), "user", objects...); err != nil {
		s.t.Fatal(err)
	}
}

// goOn lets one more of everything happen: a stream, a Pod and a listener come, those of the last round go, and what others hold is
// asked for in vain.
func (s *scenario) goOn() error {
	s.round++
	for _, object := range s.passing(s.round - 1) {
		if err := s.Client.Delete(s.t.Context(), object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	for _, object := range s.passing(s.round) {
		if err := s.Client.Create(s.t.Context(), object); err != nil {
			return err
		}
		if pod, is := object.(*corev1.Pod); is {
			pod.Status.PodIP = fmt.Sprintf("10.0.0.%d", s.round%250+1)
			pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
			if err := s.Client.Status().Update(s.t.Context(), pod); err != nil {
				return err
			}
		}
	}
	for _, rival := range s.rivals() {
		if err := s.Client.Create(s.t.Context(), rival); !apierrors.IsInvalid(err) {
			return fmt.Errorf("%T %s was not refused: %w", rival, rival.GetName(), err)
		}
	}
	return nil
}

// passing are the objects of one round.
func (s *scenario) passing(round int) []client.Object {
	stream := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("round-%d", round)}}
	stream.Spec.Upstream.Service, stream.Spec.Upstream.Port.IntVal = "web", 80
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: stream.Name}}
	pod.Spec.NodeName = "node-a"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c:1"}}
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: stream.Name}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: new(gatewayv1.Namespace("edge")), Name: "open"}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "tcp", Port: int32(8000 + round%1000), Protocol: gatewayv1.TCPProtocolType}}
	return []client.Object{stream, pod, set}
}

// rivals ask for what others hold.
func (s *scenario) rivals() []client.Object {
	stream := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "rival", Name: "postgres"}}
	stream.Spec.Listen = new(int32(5432))
	stream.Spec.Upstream.Service, stream.Spec.Upstream.Port.IntVal = "web", 80
	return []client.Object{stream, s.web("rival")}
}

// web is a Service that asks for shop.example.com.
func (s *scenario) web(namespace string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: "class=nginx, host=shop.example.com"}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	return svc
}

// unheard asks while nobody answers: a stream is refused by the API server, a Service let through.
func (s *scenario) unheard() error {
	s.round++
	stream := s.passing(s.round)[0]
	if err := s.Client.Create(s.t.Context(), stream); err == nil || apierrors.IsInvalid(err) {
		return fmt.Errorf("without a replica, a stream is not refused by the API server: %w", err)
	}
	svc := s.web("rival")
	if err := s.Client.Create(s.t.Context(), svc); err != nil {
		return err
	}
	return s.Client.Delete(s.t.Context(), svc)
}
