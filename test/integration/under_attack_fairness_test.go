package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestCrowd lets 300 service accounts create a stream each at the same time, at an API server that works on a few
// requests at once. Each of these requests holds a seat while Portcullis asks the same API server for a claim. That all
// of them are told yes is what our FlowSchema is for: without it, every seat may be held by a request that waits for a seat
// until the webhook times out, and the same attack is run for the record only.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const accounts = 300
	h := start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{APIServerFlags: []string{
		"--max-requests-inflight=20", "--max-mutating-requests-inflight=10",
	}}})
	w := newFixture(t, h)
	users := w.serviceAccounts("crowd", accounts)
	e := w.newEdge("crowd", hostNetwork)

	before := w.dispatched()
	// A machine that is shared with others may not work on all of them within the time that a request has: then half as many
	// come, which are still more than enough to take every seat.
	const chances = 3
	asking := users
	for chance := range chances {
		got, slowest := w.crowd(fmt.Sprintf("with-%d", chance), int32(10000+1000*chance), asking)
		t.Logf("with our FlowSchema: %d yes, %d no, %d errors, the slowest took %v", len(got.yes), got.no, len(got.unclear), slowest)
		if len(got.yes) == len(asking) {
			break
		}
		t.Logf("errors: %v", errors.Join(got.unclear[:min(3, len(got.unclear))]...))
		if chance == chances-1 {
			t.Errorf("only %d of %d were told yes", len(got.yes), len(asking))
			break
		}
		asking = asking[:len(asking)/2]
	}
	e.isExact()
	after := w.dispatched()
	for _, schema := range slices.Sorted(maps.Keys(after)) {
		t.Logf("%v requests were classified into FlowSchema %s", after[schema]-before[schema], schema)
	}
	if n := after["portcullis"] - before["portcullis"]; n < float64(2*len(asking)) {
		t.Errorf("%v requests of Portcullis were classified into its own FlowSchema: it has written more claims and statuses", n)
	}

	w.delete(&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}},
		&flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}})
	w.eventually("the API server to have forgotten our FlowSchema", func() error {
		schema, err := w.schemaOf(harness.User, harness.Groups...)
		return errors.Join(err, is(schema, "service-accounts"))
	})
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	hooks.Name = "portcullis"
	edit(w, hooks, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			c.Webhooks[i].TimeoutSeconds = new(int32(3)) // those who fail do so after as long as in a cluster
		}
	})
	got, slowest := w.crowd("without", 20000, users[:60]) // enough to take every seat
	t.Logf("without our FlowSchema: %d yes, %d no, %d errors, the slowest took %v", len(got.yes), got.no, len(got.unclear), slowest)
	if len(got.unclear) > 0 {
		t.Logf("the first error: %v", got.unclear[0])
	}
}

// serviceAccounts are n users with the right to create streams in their namespace, of which there are ten.
func (w *fixture) serviceAccounts(prefix string, n int) []*creator {
	w.t.Helper()
	namespaces := w.creators(prefix, 10)
	users := make([]*creator, n)
	for i := range users {
		ns := namespaces[i%len(namespaces)].namespace
		users[i] = &creator{namespace: ns}
		config, err := w.ConfigFor(fmt.Sprintf("system:serviceaccount:%s:robot-%d", ns, i),
			"system:serviceaccounts", "system:serviceaccounts:"+ns, "system:authenticated")
		must(w, err)
		config.WarningHandlerWithContext = rest.NoWarnings{}
		users[i].Client, err = client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: w.Client.RESTMapper()})
		must(w, err)
	}
	for _, c := range namespaces {
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "robots"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "portcullis-streamingress-edit"},
			Subjects: []rbacv1.Subject{{
				APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + c.namespace,
			}},
		})
	}
	w.eventually("the service accounts to have their rights", func() error {
		err := users[n-1].Create(w.t.Context(), sti(users[n-1].namespace+"/probe", of("there-is-no-such-class")), client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
	return users
}

// crowd lets every user create a stream at the same moment.
func (w *fixture) crowd(name string, firstPort int32, users []*creator) (got answers, slowest time.Duration) {
	w.t.Helper()
	var mu sync.Mutex
	got = all(users, func(i int, c *creator) error {
		began := time.Now()
		err := c.Create(w.t.Context(), sti(fmt.Sprintf("%s/%s-%d", c.namespace, name, i), of("crowd"), tcp(firstPort+int32(i))))
		mu.Lock()
		defer mu.Unlock()
		slowest = max(slowest, time.Since(began))
		return err
	})
	return got, slowest.Round(time.Millisecond)
}

// dispatched is how many requests the API server has worked on, by the FlowSchema that they were classified into.
func (w *fixture) dispatched() map[string]float64 {
	w.t.Helper()
	admin, err := rest.HTTPClientFor(w.Config())
	must(w, err)
	defer admin.CloseIdleConnections()
	counts := map[string]float64{}
	for name, value := range metrics(w, w.Config().Host+"/metrics", admin) {
		if rest, found := strings.CutPrefix(name, `apiserver_flowcontrol_dispatched_requests_total{flow_schema="`); found {
			schema, _, _ := strings.Cut(rest, `"`)
			counts[schema] += value
		}
	}
	return counts
}

// schemaOf is the name of the FlowSchema into which requests of a user are classified now.
func (w *fixture) schemaOf(user string, groups ...string) (string, error) {
	config, err := w.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	as, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	defer as.CloseIdleConnections()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, config.Host+"/api/v1/namespaces", http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := as.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var schemas flowcontrolv1.FlowSchemaList
	if err := w.Client.List(w.t.Context(), &schemas); err != nil {
		return "", err
	}
	for _, schema := range schemas.Items {
		if string(schema.UID) == answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) {
			return schema.Name, nil
		}
	}
	return "", fmt.Errorf("no FlowSchema has UID %q", answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID))
}
