package adversary

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What the tenants fight for. There is little of each, so that they meet.
const (
	// platform is the namespace of the proxies: className is the class of the one that has a Service, hostClassName that of the one
	// which listens on the nodes.
	platform      = "platform"
	className     = "public"
	hostClassName = "hosts"
	// directClassName is the class without a proxy, whose streams have their Services in directNamespace.
	directClassName, directNamespace = "direct", "direct"
	// sharedAddress is that of the pool "shared", of which Services have ports. The proxy is one of them, and the class without one has
	// its address there.
	sharedAddress = "198.51.100.1"
	// nodeAddress is that of the one node, whose ports the pool "nodes" gives.
	nodeAddress = "10.0.0.1"
)

var (
	tenants  = []string{"tenant-a", "tenant-b", "tenant-c"}
	sharedIP = netip.MustParseAddr(sharedAddress)
	// wholeAddresses are those of the pool "whole", of which a Service has all.
	wholeAddresses = []string{"198.51.100.16", "198.51.100.17", "198.51.100.18"}
)

// stage is a running Portcullis with its tenants.
type stage struct {
	*harness.Harness
	t        *testing.T
	users    []*user
	replicas *replicas
	history  *history
}

// user is somebody who acts.
type user struct {
	client.Client
	name, namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := harness.Start(ctx, options())
	if err != nil {
		t.Fatalf("starting Portcullis: %v", err)
	}
	s := &stage{Harness: h, t: t, history: &history{}, replicas: &replicas{h: h, running: slices.Clone(h.Replicas)}}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Errorf("stopping Portcullis: %v", err)
		}
	})
	tended := make(chan error, 1)
	go func() { tended <- s.replicas.tend(t.Context()) }()
	t.Cleanup(func() {
		if err := <-tended; err != nil {
			t.Error(err)
		}
	})
	if err := h.StartControllers(ctx); err != nil {
		t.Fatalf("starting controllers: %v", err)
	}
	s.makeNode()
	s.makePools()
	s.makeProxy()
	for _, name := range tenants {
		s.users = append(s.users, s.makeTenant(name))
	}
	return s
}

// eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func (s *stage) eventually(what string, check func() error) {
	s.t.Helper()
	if err := within(s.t.Context(), patience, check); err != nil {
		s.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// within waits until check returns nil, for some time at most, and returns its last error.
func within(ctx context.Context, wait time.Duration, check func() error) (err error) {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		if err = check(); err == nil || harness.Pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
	return err
}

// create creates objects as the administrator.
func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		if err := s.Client.Create(s.t.Context(), object); err != nil {
			s.t.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

func (s *stage) makeNode() {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	s.create(n)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := s.Client.Status().Update(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
}

// pool is an AddressPool as the administrator makes it.
func pool(name string) *v1beta1.AddressPool {
	p := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	switch name {
	case "shared":
		p.Spec.Addresses, p.Spec.Sharing, p.Spec.AutoAssign = []string{sharedAddress}, v1beta1.SharingPorts, new(false)
	case "whole":
		p.Spec.Addresses = wholeAddresses[:2]
	case "nodes":
		p.Spec.Source, p.Spec.AutoAssign = v1beta1.SourceNodeIP, new(false)
	}
	return p
}

func (s *stage) makePools() {
	s.t.Helper()
	for _, name := range []string{"shared", "whole", "nodes"} {
		p := pool(name)
		s.create(p)
		s.eventually("the pool "+name, func() error {
			if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			return isTrue(p.Status.Conditions, v1beta1.ConditionAccepted)
		})
	}
}

// makeProxy makes the proxy's Service, which has a port of the shared address for each port of a stream, and the classes.
func (s *stage) makeProxy() {
	s.t.Helper()
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: platform}}, proxy(), entries(), gateway())
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: directNamespace}})
	for _, c := range []*v1beta1.StreamIngressClass{class(), hostClass(), directClass()} {
		s.create(c)
		s.eventually("the class "+c.Name, func() error {
			if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}
			return isTrue(c.Status.Conditions, v1beta1.ConditionAccepted)
		})
	}
	s.eventually("the proxy's address", func() error {
		svc := proxy()
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
			return err
		}
		if len(svc.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the proxy has no address")
		}
		return nil
	})
}

func isTrue(conditions []metav1.Condition, kind string) error {
	for _, c := range conditions {
		if c.Type == kind && c.Status == metav1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not %s: %v", kind, conditions)
}

// makeTenant makes a namespace and a user who may edit it, and have ListenerSets there, and nothing else.
func (s *stage) makeTenant(name string) *user {
	s.t.Helper()
	config, err := s.ConfigFor(name, "system:authenticated")
	if err != nil {
		s.t.Fatal(err)
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	u := &user{name: name, namespace: name}
	if u.Client, err = client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: s.Client.RESTMapper()}); err != nil {
		s.t.Fatal(err)
	}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "listen"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{gatewayv1.GroupName}, Resources: []string{"listenersets"}, Verbs: []string{"*"}}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "listen"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "listen"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	for _, resource := range []string{"services", "ingresses.networking.k8s.io", "streamingresses." + v1beta1.GroupName, "listenersets." + gatewayv1.GroupName} {
		s.eventually("the rights of "+name, func() error { return s.may(name, resource) })
	}
	return u
}

// may says whether the API server lets a tenant create something: roles are aggregated, and count, a moment after they are
// written.
func (s *stage) may(tenant, resource string) error {
	what := &authorizationv1.ResourceAttributes{Verb: "create", Namespace: tenant}
	what.Resource, what.Group, _ = strings.Cut(resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: tenant, ResourceAttributes: what}}
	if err := s.Client.Create(s.t.Context(), review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%s may not create %s", tenant, resource)
	}
	return nil
}
