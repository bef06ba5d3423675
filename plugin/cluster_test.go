package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// TestReadsPageByPage holds that all pages are read, and none is asked for that is too large.
func TestReadsPageByPage(t *testing.T) {
	const pages = 3
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/shop/services" || query.Get("limit") != fmt.Sprint(pageSize) {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		if want := map[int]string{0: "", 1: "1", 2: "2"}[asked]; query.Get("continue") != want {
			t.Errorf("page %d continues %q", asked, query.Get("continue"))
		}
		asked++
		list := corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: named("shop", fmt.Sprint(asked))}}}
		list.APIVersion, list.Kind = "v1", "ServiceList"
		if asked < pages {
			list.Continue = fmt.Sprint(asked)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	known := scheme()
	a := &apiServer{
		config: &rest.Config{Host: server.URL}, scheme: known, codecs: serializer.NewCodecFactory(known),
		params: runtime.NewParameterCodec(known), clients: map[schema.GroupVersion]rest.Interface{},
	}
	var names []string
	if err := a.Each(t.Context(), kindOf("Service"), "shop", "", func(obj runtime.Object) {
		names = append(names, obj.(*corev1.Service).Name)
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(names, "") != "123" {
		t.Errorf("read %v", names)
	}
}

func TestReadOnly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s got through", r.Method)
		}
	}))
	defer server.Close()
	for method, passes := range map[string]bool{http.MethodGet: true, http.MethodPost: false, http.MethodDelete: false, http.MethodPatch: false} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := readOnly{http.DefaultTransport}.RoundTrip(request)
		if (err == nil) != passes {
			t.Errorf("%s: %v", method, err)
		}
		if answer != nil {
			_ = answer.Body.Close()
		}
	}
}

func TestConfigMapIsRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/edge/configmaps/tcp" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"80":"a/b:80"}}`))
	}))
	defer server.Close()
	known := scheme()
	a := &apiServer{
		config: &rest.Config{Host: server.URL}, scheme: known, codecs: serializer.NewCodecFactory(known),
		params: runtime.NewParameterCodec(known), clients: map[schema.GroupVersion]rest.Interface{},
	}
	cm, err := a.ConfigMap(t.Context(), types.NamespacedName{Namespace: "edge", Name: "tcp"})
	if err != nil || cm.Data["80"] != "a/b:80" {
		t.Errorf("got %v, %v", cm, err)
	}
}

// TestReadsOlderVersions holds that routes are read in the versions in which older clusters have them.
func TestReadsOlderVersions(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := map[string]string{
			"tcproutes": "v1alpha2/TCPRoute", "udproutes": "v1alpha2/UDPRoute", "tlsroutes": "v1alpha3/TLSRoute",
			"grpcroutes": "v1alpha2/GRPCRoute", "httproutes": "v1beta1/HTTPRoute",
		}
		parts := strings.Split(r.URL.Path, "/")
		plural := parts[len(parts)-1]
		version, name, _ := strings.Cut(served[plural], "/")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/gateway.networking.k8s.io/"+version+"/"+plural {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion": "gateway.networking.k8s.io/%s", "kind": "%sList", "items": [
			{"metadata": {"namespace": "team", "name": "x"}, "spec": {"parentRefs": [{"name": "gw"}]}}]}`, version, name)
	}))
	defer server.Close()
	known := scheme()
	r := &reader{cluster: &apiServer{
		config: &rest.Config{Host: server.URL}, scheme: known, codecs: serializer.NewCodecFactory(known),
		params: runtime.NewParameterCodec(known), clients: map[schema.GroupVersion]rest.Interface{},
	}, progress: newProgress(io.Discard, clock.RealClock{})}
	s := &snapshot.Snapshot{}
	for i := range kinds {
		if strings.HasSuffix(kinds[i].name, "Route") {
			if err := r.readKind(t.Context(), &kinds[i], s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(s.Routes) != 5 || len(r.unread) > 0 {
		t.Fatalf("got %d routes, and did not read %v", len(s.Routes), r.unread)
	}
	for _, obj := range s.Routes {
		if route, ok := guard.OfRoute(obj); !ok || len(route.Parents) != 1 || route.Namespace != "team" {
			t.Errorf("got %T %+v", obj, route)
		}
	}
}
