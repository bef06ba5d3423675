package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// poolFixture is a fixture whose Portcullis gives out addresses of pools. Everything in it is about the Services of its class
// and their claims, so that a test needs a Portcullis of its own.
type poolFixture struct {
	*fixture
	history *history
}

// borrower is a Service that Portcullis serves, by its namespace/name. It has no node ports: there are few of them.
func borrower(key string, options ...balancerOption) *corev1.Service {
	svc := balancer(key, options...)
	svc.Spec.AllocateLoadBalancerNodePorts = new(false)
	return svc
}

// lending is a pool for all Services, of addresses separated by commas; without any it is one of the nodes'.
func lending(name, addresses string, options ...poolOption) *v1beta1.AddressPool {
	if addresses == "" {
		return source(name, v1beta1.SourceNodeIP, append(options, forAll)...)
	}
	return addressPool(name, strings.Split(addresses, ","), append(options, forAll)...)
}

// lendable waits until pools are accepted.
func (l *poolFixture) lendable(pools ...*v1beta1.AddressPool) {
	l.t.Helper()
	for _, p := range pools {
		l.create(p)
		l.poolHas(p, "True Accepted")
	}
}

// readyNode makes a node that is ready.
func (l *poolFixture) readyNode(name, address string) *corev1.Node {
	l.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.create(n)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := l.Client.Status().Update(l.t.Context(), n); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// borrowed are the addresses in the statuses of all Services that Portcullis serves, those without any left out.
func (l *poolFixture) borrowed() map[types.NamespacedName]string {
	l.t.Helper()
	list := &corev1.ServiceList{}
	if err := l.Client.List(l.t.Context(), list); err != nil {
		l.t.Fatal(err)
	}
	has := map[types.NamespacedName]string{}
	for i := range list.Items {
		svc := &list.Items[i]
		if class := svc.Spec.LoadBalancerClass; class == nil || *class != v1beta1.LoadBalancerClass {
			continue
		}
		if text := addressesOf(svc); text != "" {
			has[client.ObjectKeyFromObject(svc)] = text
		}
	}
	return has
}

// addressesOf are the addresses in a status in one line.
func addressesOf(svc *corev1.Service) string {
	var texts []string
	for _, ip := range listedAddresses(svc) {
		texts = append(texts, ip.String())
	}
	return strings.Join(texts, ",")
}

// lends waits until as many Services as wanted have addresses, and nobody holds anything that is not in a status.
func (l *poolFixture) lends(want int) map[types.NamespacedName]string {
	l.t.Helper()
	var has map[types.NamespacedName]string
	l.eventually(fmt.Sprintf("%d Services to have addresses", want), func() error {
		has = l.borrowed()
		return errors.Join(is(len(has), want), l.leftovers(has))
	})
	return has
}

// leftovers are the claims on addresses and ports of Services whose status does not list the address.
func (l *poolFixture) leftovers(has map[types.NamespacedName]string) error {
	claims := &v1beta1.EdgeClaimList{}
	if err := l.Client.List(l.t.Context(), claims); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		c := &claims.Items[i]
		at, err := claim.Parse(c.Name)
		if err != nil || !at.IsAddress() && !at.IsNode() {
			continue
		}
		listed := strings.Split(has[claim.HolderOf(c).Key()], ",")
		if listed[0] == "" || at.IsAddress() && !slices.Contains(listed, at.Address().String()) {
			errs = append(errs, fmt.Errorf("%s holds %s, and its status lists %v", c.Spec.HeldBy, c.Name, listed))
		}
	}
	return errors.Join(errs[:min(len(errs), 5)]...)
}

// isExactly waits until Services have the addresses that they had.
func (l *poolFixture) isExactly(want map[types.NamespacedName]string) {
	l.t.Helper()
	l.eventually("all Services to have their addresses", func() error {
		has := l.borrowed()
		if maps.Equal(has, want) {
			return l.leftovers(has)
		}
		for key, text := range want {
			if has[key] != text {
				return fmt.Errorf("%s has %q, want %q", key, has[key], text)
			}
		}
		return fmt.Errorf("%d Services have addresses, want %d", len(has), len(want))
	})
}

// neverMoved fails the test for each Service whose status ever listed more than one set of addresses.
func (l *poolFixture) neverMoved() {
	l.t.Helper()
	first := map[types.UID]string{}
	for _, e := range l.history.sorted() {
		svc, ok := e.stored.(*corev1.Service)
		if !ok || addressesOf(svc) == "" {
			continue
		}
		if had := first[svc.UID]; had != "" && had != addressesOf(svc) {
			l.t.Errorf("at version %d, %s/%s has %s, and had %s", e.version, svc.Namespace, svc.Name, addressesOf(svc), had)
		}
		first[svc.UID] = addressesOf(svc)
	}
}
