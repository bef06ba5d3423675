//go:build monitoring

package monitoring

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// watcher is the ServiceAccount that may read metrics, with all that its Prometheus needs in a directory.
type watcher struct {
	*harness.Harness
	t   *testing.T
	dir string
}

// newWatcher trusts the authority of the replicas' certificates.
func newWatcher(t *testing.T, h *harness.Harness, authority []byte) *watcher {
	t.Helper()
	w := &watcher{h, t, t.TempDir()}
	access, err := controlplane.Decode(strings.NewReader(string(read(t, "config", "prometheus", "access.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}); err != nil {
		t.Fatal(err)
	}
	if err := controlplane.Apply(t.Context(), h.Config(), "install", access...); err != nil {
		t.Fatal(err)
	}
	_, rules := alerts(t)
	for name, content := range map[string][]byte{
		"token": []byte(w.token("prometheus-k8s")), "portcullis.crt": authority, "apiserver.crt": h.Config().CAData, "rules.yaml": rules,
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// token makes a ServiceAccount in the namespace monitoring, and a token for it.
func (w *watcher) token(name string) string {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: name}}
	if err := w.Client.Create(w.t.Context(), account); err != nil {
		w.t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := w.Client.SubResource("token").Create(w.t.Context(), account, request); err != nil {
		w.t.Fatal(err)
	}
	return request.Status.Token
}

func (w *watcher) configuration() string {
	targets := make([]string, 0, len(w.Replicas))
	for _, r := range w.Replicas {
		targets = append(targets, address(r.Metrics))
	}
	return fmt.Sprintf(configuration, strings.Join(targets, ", "), address(w.Config().Host))
}

func address(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return rest
}

// isLetInAlone checks that nobody reads metrics but who may.
func (w *watcher) isLetInAlone() {
	w.t.Helper()
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		return string(content)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(read("portcullis.crt")))
	https := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13},
	}}
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"nobody":                    {"", http.StatusUnauthorized},
		"an account without a role": {w.token("curious"), http.StatusForbidden},
		"Prometheus":                {read("token"), http.StatusOK},
	} {
		for _, r := range w.Replicas {
			eventually(w.t, name+" to get its answer", func() error {
				request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "https://"+address(r.Metrics)+"/metrics", http.NoBody)
				if err != nil {
					return err
				}
				if tc.token != "" {
					request.Header.Set("Authorization", "Bearer "+tc.token)
				}
				answer, err := https.Do(request)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				if answer.StatusCode != tc.want {
					return fmt.Errorf("got %s", answer.Status)
				}
				return nil
			})
		}
	}
}

// findsReplicas checks that Prometheus may list all that it discovers the targets of a ServiceMonitor from.
func (w *watcher) findsReplicas() {
	w.t.Helper()
	token, err := os.ReadFile(filepath.Join(w.dir, "token"))
	if err != nil {
		w.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.Config())
	config.BearerToken = string(token)
	prometheus, err := client.New(config, client.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kind := range [][2]string{{"v1", "Service"}, {"v1", "Endpoints"}, {"v1", "Pod"}, {"discovery.k8s.io/v1", "EndpointSlice"}} {
		found := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: kind[0], Kind: kind[1] + "List"}}
		eventually(w.t, "Prometheus to find "+kind[1], func() error {
			return prometheus.List(w.t.Context(), found, client.InNamespace("portcullis-system"))
		})
	}
}
