package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// blockingWebhook is a webhook of somebody else's, as a policy engine is one, that is slow for some users. It holds a request
// back for as long as a test wants: before Portcullis is asked (mutating) or while the API server waits for its answer
// only (validating).
type blockingWebhook struct {
	w   *fixture
	url string
	ca  []byte

	mu   sync.Mutex
	held map[string]*late
}

// late is a user whose next request is held back.
type late struct {
	client.Client
	// arrived is closed when the request is at the blocking webhook.
	arrived chan struct{}
	pass    chan struct{}
	once    sync.Once
}

// newBlockingWebhook serves one until the test ends.
func (w *fixture) newBlockingWebhook() *blockingWebhook {
	w.t.Helper()
	t := &blockingWebhook{w: w, held: map[string]*late{}}
	server := httptest.NewTLSServer(http.HandlerFunc(t.serve))
	w.t.Cleanup(server.Close)
	t.url, t.ca = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "blocking-webhook"}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "blocking-webhook"}}
	var hook admissionregistrationv1.ValidatingWebhook
	must(w, json.Unmarshal([]byte(`{
		"name": "blocking-webhook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
		"rules": [{"apiGroups": ["`+v1beta1.GroupName+`"], "apiVersions": ["*"], "resources": ["streamingresses"],
			"operations": ["CREATE", "UPDATE"]}],
		"matchConditions": [{"name": "late", "expression": "request.userInfo.username.startsWith('late-')"}]
	}`), &hook))
	hook.ClientConfig = t.at("validating")
	validating.Webhooks = []admissionregistrationv1.ValidatingWebhook{hook}
	mutating.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: hook.Name, SideEffects: hook.SideEffects, AdmissionReviewVersions: hook.AdmissionReviewVersions,
		TimeoutSeconds: hook.TimeoutSeconds, Rules: hook.Rules, MatchConditions: hook.MatchConditions, ClientConfig: t.at("mutating"),
	}}
	w.create(validating, mutating)
	w.t.Cleanup(func() {
		for _, configuration := range []client.Object{validating, mutating} {
			if err := w.Client.Delete(context.Background(), configuration); err != nil {
				w.t.Errorf("removing the blocking webhook: %v", err)
			}
		}
	})
	// The API server learns of the webhooks a moment later.
	w.create(namespace("blocking-webhook"))
	for _, where := range []string{"mutating", "validating"} {
		probe := t.late(where, "probe-"+where)
		w.eventually("the "+where+" blocking webhook to be in the way", func() error {
			ctx, cancel := context.WithCancel(w.t.Context())
			defer cancel()
			go func() {
				select {
				case <-probe.arrived:
					cancel()
				case <-ctx.Done():
				}
			}()
			_ = probe.Create(ctx, sti("blocking-webhook/probe", of("blocking-webhook"), tcp(1)), client.DryRunAll)
			select {
			case <-probe.arrived:
				return nil
			default:
				return is("not asked", "asked")
			}
		})
		probe.let()
	}
	return t
}

func (t *blockingWebhook) at(where string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: new(t.url + "/" + where), CABundle: t.ca}
}

// late is a user whose requests are held back at "mutating" or "validating" until let is called.
func (t *blockingWebhook) late(where, name string) *late {
	t.w.t.Helper()
	user := "late-" + name
	config, err := t.w.ConfigFor(user, "system:masters")
	must(t.w, err)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	l := &late{arrived: make(chan struct{}), pass: make(chan struct{})}
	l.Client, err = client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: t.w.Client.RESTMapper()})
	must(t.w, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[where+" "+user] = l
	t.w.t.Cleanup(l.let)
	return l
}

// let lets the user's requests through, this one and all later ones.
func (l *late) let() {
	l.once.Do(func() { close(l.pass) })
}

// begin starts a request of the user and returns when it is at the blocking webhook. The error of the request comes through
// the channel.
func (l *late) begin(w *fixture, request func(client.Client) error) <-chan error {
	w.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- request(l.Client) }()
	select {
	case <-l.arrived:
	case err := <-ended:
		w.t.Fatalf("the request ended before it was held back: %v", err)
	}
	return ended
}

func (t *blockingWebhook) serve(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	l := t.held[strings.TrimPrefix(in.URL.Path, "/")+" "+review.Request.UserInfo.Username]
	if l != nil {
		select {
		case <-l.arrived:
		default:
			close(l.arrived)
		}
	}
	t.mu.Unlock()
	if l != nil {
		select {
		case <-l.pass:
		case <-in.Context().Done():
		}
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // nobody waits any more where that fails
}

// must ends the test on an error.
func must(w *fixture, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
