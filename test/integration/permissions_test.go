package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// permission is one verb on one resource that a role gives, in a namespace or everywhere, for one name or all.
type permission struct {
	role, verb, resource, namespace, name string
}

func (p permission) String() string {
	s := p.role + ": " + p.verb + " " + p.resource
	if p.name != "" {
		s += " " + p.name
	}
	return s
}

// grants says whether the permission is what lets a request through. A server-side apply is a patch, and a create, too,
// where there was nothing.
func (p permission) grants(r controlplane.Request) bool {
	return (p.verb == r.Verb || p.verb == "create" && created(r)) && p.resource == r.Resource && (p.namespace == "" || p.namespace == r.Namespace) &&
		(p.name == "" || p.name == r.Name)
}

func created(r controlplane.Request) bool { return r.Verb == "patch" && r.Code == http.StatusCreated }

// permissionsIn are those of the rules of a role.
func permissionsIn(role, namespace string, rules []rbacv1.PolicyRule) (all []permission) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, plural := range rule.Resources {
				resource, sub, found := strings.Cut(plural, "/")
				if group != "" {
					resource += "." + group
				}
				if found {
					resource += "/" + sub
				}
				for _, verb := range rule.Verbs {
					for _, name := range append(rule.ResourceNames[:len(rule.ResourceNames):len(rule.ResourceNames)], "")[:max(1, len(rule.ResourceNames))] {
						all = append(all, permission{role, verb, resource, namespace, name})
					}
				}
			}
		}
	}
	return all
}

// permissions are all that the ServiceAccount of Portcullis has.
func (w *fixture) permissions() (all []permission) {
	w.t.Helper()
	ours := func(s rbacv1.Subject) bool { return s.Kind == rbacv1.ServiceAccountKind && s.Name == "portcullis" }
	var wide rbacv1.ClusterRoleBindingList
	var narrow rbacv1.RoleBindingList
	must(w, w.Client.List(w.t.Context(), &wide))
	must(w, w.Client.List(w.t.Context(), &narrow))
	for _, binding := range wide.Items {
		if slices.ContainsFunc(binding.Subjects, ours) {
			role := &rbacv1.ClusterRole{}
			must(w, w.Client.Get(w.t.Context(), client.ObjectKey{Name: binding.RoleRef.Name}, role))
			all = append(all, permissionsIn("ClusterRole "+role.Name, "", role.Rules)...)
		}
	}
	for _, binding := range narrow.Items {
		if slices.ContainsFunc(binding.Subjects, ours) {
			role := &rbacv1.Role{}
			must(w, w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: binding.Namespace, Name: binding.RoleRef.Name}, role))
			all = append(all, permissionsIn("Role "+role.Name, role.Namespace, role.Rules)...)
		}
	}
	return all
}

// TestEveryPermissionIsUsed does everything that Portcullis can do, and looks at what it asked the API server for. Every
// permission that the manifests give was needed at least once, and is the only one that lets that request through: were
// it taken away, the request would be denied, and none may be.
func TestEveryPermissionIsUsed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{
		ControlPlane: controlplane.Options{Audit: true, AuditReads: true}, Flags: []string{"--metrics-secure=true", "--claim-grace=2s"},
		// An API server before 1.34 is asked for a list before it is watched.
		Env: []string{"KUBE_FEATURE_WatchListClient=false"},
	}))
	all := w.permissions()
	for _, p := range all {
		secrets := strings.HasPrefix(p.resource, "secrets") && p.namespace != "portcullis-system"
		if secrets || strings.Contains(p.verb+p.resource, "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, p.verb) {
			t.Errorf("too much: %s", p)
		}
	}
	w.awaitRoles(all)
	w.doEverything()

	w.eventually("every permission to be used", func() error {
		requests, err := w.asked()
		for _, p := range all {
			if !slices.ContainsFunc(requests, p.grants) {
				err = errors.Join(err, fmt.Errorf("never used: %s", p))
			}
		}
		return err
	})
	requests, err := w.asked()
	must(w, err)
	for _, r := range requests {
		by := slices.DeleteFunc(slices.Clone(all), func(p permission) bool { return !p.grants(r) })
		twice := created(r) && len(by) == 2 && by[0].verb != by[1].verb
		if !twice && (r.Code == http.StatusForbidden || len(by) != 1) {
			t.Errorf("%s %s %s/%s was answered with %d, granted by %v", r.Verb, r.Resource, r.Namespace, r.Name, r.Code, by)
		}
	}
}

// awaitRoles waits until the API server knows the roles, by one permission of each: nothing may be denied.
func (w *fixture) awaitRoles(all []permission) {
	w.t.Helper()
	known := map[string]bool{}
	for _, p := range all {
		if known[p.role+" "+p.namespace] {
			continue
		}
		known[p.role+" "+p.namespace] = true
		what := &authorizationv1.ResourceAttributes{Verb: p.verb, Namespace: p.namespace, Name: p.name}
		resource, sub, _ := strings.Cut(p.resource, "/")
		what.Resource, what.Group, _ = strings.Cut(resource, ".")
		what.Subresource = sub
		w.awaitRight(harness.User, true, what)
	}
}

// asked is everything that Portcullis has asked for.
func (w *fixture) asked() ([]controlplane.Request, error) {
	requests, err := w.Requests()
	return slices.DeleteFunc(requests, func(r controlplane.Request) bool { return r.User != harness.User || r.Resource == "" }), err
}

// doEverything has Portcullis do all that it can.
func (w *fixture) doEverything() {
	w.t.Helper()
	w.installCertManagerKinds()
	w.create(namespace("all", podToIPLabel), service("all/web", port("http", 80)))
	former, err := w.StartReplica(w.t.Context())
	must(w, err)
	w.openPorts()
	w.openOnGateway()
	w.exposeHosts()
	w.giveAddresses()
	w.followPods()
	w.askDirectly(former)
	w.scrape(former)
	must(w, former.Terminate())
	// The next one leads, and replaces a certificate that lacks a name.
	_, err = w.StartReplica(w.t.Context(), "--webhook-dns-names=localhost,all.example.com")
	must(w, err)
}

// installCertManagerKinds serves cert-manager's kinds, without cert-manager.
func (w *fixture) installCertManagerKinds() {
	w.t.Helper()
	dir, err := harness.PinnedDir(w.t.Context(), "", "github.com/cert-manager/cert-manager")
	must(w, err)
	objects, err := controlplane.ReadFile(filepath.Join(dir, "deploy", "crds", "cert-manager.io_certificates.yaml"))
	must(w, err)
	must(w, controlplane.Apply(w.t.Context(), w.Config(), "cert-manager", objects...))
}

// openPorts lets a class live, with streams inside and outside and with foreign entries.
func (w *fixture) openPorts() {
	w.t.Helper()
	w.guarded() // the replica has started just now
	e := w.newEdge("all")
	s, out := sti("all/s", of("all"), tcp(5432)), sti("all/out", of("all"), tcp(636), outside("192.0.2.1", 636))
	w.create(s, out)
	e.leads(TCP, 5432, "all/web:80")
	e.reaches(out, "TCP 192.0.2.1:636")
	edit(w, out, outside("192.0.2.2", 636))
	e.reaches(out, "TCP 192.0.2.2:636")
	edit(w, out, outside("ldap.example.com", 636))
	e.reaches(out, "TCP ldap.example.com:636")
	edit(w, out, func(s *v1beta1.StreamIngress) { s.Spec = sti("all/out", of("all"), tcp(636)).Spec })
	e.leads(TCP, 636, "all/web:80")
	w.delete(out)
	e.leads(TCP, 636, "closed")
	tcpMap := configMap(e.namespace+"/tcp-services", nil)
	edit(w, tcpMap, func(cm *corev1.ConfigMap) { cm.Data["9000"], cm.Data["9001"] = "default/manual:80", "all/web:80" })
	e.heldBy("all", TCP, 9000, "ConfigMap "+e.namespace+"/tcp-services")
	e.heldBy("all", TCP, 9001, "ConfigMap "+e.namespace+"/tcp-services")
	edit(w, tcpMap, func(cm *corev1.ConfigMap) { delete(cm.Data, "9000") })
	e.heldBy("all", TCP, 9000, "")
	w.create(sti("all/adopter", of("all"), tcp(9001)))
	e.heldBy("all", TCP, 9001, "StreamIngress all/adopter")
	if err := w.try(sti("all/lost", of("unknown"), tcp(1))); !apierrors.IsInvalid(err) {
		w.t.Errorf("a stream of an unknown class: %v", err)
	}
}

// openOnGateway lets a class with a Gateway live: streams come, one leads elsewhere, and they go.
func (w *fixture) openOnGateway() {
	w.t.Helper()
	must(w, w.InstallGateways(w.t.Context()))
	class := gatewayClass("all-gateway")
	w.newGateway(class, "192.0.2.11")
	w.create(service("all/dns", port("http", 80, UDP), port("more", 81, UDP)), service("all/more", port("http", 81)), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s, dns := sti("all/on-gateway", of(class.Name), tcp(5432)), sti("all/dns", of(class.Name), udp(53), to("dns", 80))
	w.create(s, dns)
	w.programmed(s, dns)
	edit(w, s, to("more", 81))
	edit(w, dns, to("dns", 81))
	w.routes(class, TCP, 5432, "all", "more:81")
	w.routes(class, UDP, 53, "all", "dns:81")
	for _, gone := range []*v1beta1.StreamIngress{s, dns} { // one after another: a set is changed, and then goes
		w.delete(gone)
		w.routes(class, gone.ProtocolOrDefault(), *gone.Spec.Listen, "all", "")
		w.heldBy(class.Name, gone.ProtocolOrDefault(), *gone.Spec.Listen, "")
	}
}

// exposeHosts makes a HostPolicy, asks for an Ingress and a Certificate, changes and drops them.
func (w *fixture) exposeHosts() {
	w.t.Helper()
	policy := hostPolicy("all", []string{"*.example.com"}, ownsNames)
	w.create(policy)
	w.isAccepted(policy)
	svc := asking("all/shop", "host=all.example.com, issuer=ca")
	w.create(svc)
	w.serves(svc, "Prefix all.example.com/ -> shop:80\ntls shop-tls for all.example.com")
	edit(w, svc, ask("host=all.example.org, issuer=ca"))
	w.serves(svc, "Prefix all.example.org/ -> shop:80\ntls shop-tls for all.example.org")
	for _, why := range []string{"no account", "no quota"} { // one event, and then a series of it
		w.fails("all/shop", why)
		w.hasEvent(svc, "Warning CertificateNotReady")
	}
	edit(w, svc, askNothing)
	w.serves(svc, "")
}

// fails says, as cert-manager would, that a certificate could not be issued.
func (w *fixture) fails(key, why string) {
	w.t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Issuing", "status": "False", "reason": "Failed", "message": %q}]}}`, why)
	w.mustKubectl("", "patch", "certificate", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
}

// giveAddresses lets a Service have an address of a pool, and another ask for a pool that is not there.
func (w *fixture) giveAddresses() {
	w.t.Helper()
	if err := w.try(balancer("all/unknown", inPool("unknown"))); !apierrors.IsInvalid(err) {
		w.t.Errorf("a Service in an unknown pool: %v", err)
	}
	w.create(addressPool("all", []string{"192.0.2.0/24"}, forAll))
	svc := balancer("all/balanced")
	w.create(svc)
	w.balances(svc, "192.0.2.0 VIP TCP/80")
	w.delete(svc)
}

// followPods lets a Pod have an IP, change it, and end.
func (w *fixture) followPods() {
	w.t.Helper()
	p := pod("all/p")
	w.create(p)
	w.runs(p, "10.0.3.7")
	w.isAt("all/p", "10.0.3.7 node-a")
	w.runs(p, "10.0.3.8")
	w.isAt("all/p", "10.0.3.8 node-a")
	w.kill(p)
	w.isAt("all/p", "")
}

// scrape reads the metrics as Prometheus would.
func (w *fixture) scrape(r *harness.Replica) {
	w.t.Helper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = "all", "prometheus"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "portcullis-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "all", Name: "prometheus"}},
	}
	binding.Name = "all"
	w.create(account, binding)
	w.awaitReview(true, authorizationv1.SubjectAccessReviewSpec{
		User:                  "system:serviceaccount:all:prometheus",
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
	})
	token := &authenticationv1.TokenRequest{}
	must(w, w.Client.SubResource("token").Create(w.t.Context(), account, token))
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, strings.Replace(r.Metrics, "http:", "https:", 1)+"/metrics", http.NoBody)
	must(w, err)
	req.Header.Set("Authorization", "Bearer "+token.Status.Token)
	mustContain(w.t, w.answerTo(req), "portcullis_claims")
}

// askDirectly asks for a decision about a namespace that Portcullis can't know yet.
func (w *fixture) askDirectly(r *harness.Replica) {
	w.t.Helper()
	mustContain(w.t, w.answerTo(w.toJudge(r, sti("nowhere/s", of("all"), tcp(5433)))), `"uid":"1"`)
}

// toJudge asks a replica for a decision about a stream that is not to be stored. The API server waits for three seconds.
func (w *fixture) toJudge(r *harness.Replica, s *v1beta1.StreamIngress) *http.Request {
	w.t.Helper()
	object, err := json.Marshal(s)
	must(w, err)
	review, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Namespace: s.Namespace, Name: s.Name, Operation: admissionv1.Create, DryRun: new(true),
			Object: runtime.RawExtension{Raw: object},
		},
	})
	must(w, err)
	url := r.Webhook + "/validate-nginx-stream-jeffthecoder-xyz-v1beta1-streamingress?timeout=3s"
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url, bytes.NewReader(review))
	must(w, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// answerTo is the answer of a replica, whose certificate is not what is tested.
func (w *fixture) answerTo(req *http.Request) string {
	w.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	must(w, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(w, err)
	if resp.StatusCode != http.StatusOK {
		w.t.Errorf("%s is answered with %s", req.URL, resp.Status)
	}
	return string(body)
}
