package plugin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// passes answers everything.
type passes struct{}

func (passes) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: http.NoBody}, nil
}

// TestMovesStreams holds that nothing gets through but what reads, and patches of StreamIngresses.
func TestMovesStreams(t *testing.T) {
	const path = "/apis/nginx-stream.jeffthecoder.xyz/v1beta1/namespaces/team/streamingresses/db"
	for request, through := range map[[2]string]bool{
		{http.MethodGet, "/api/v1/secrets"}:            true,
		{http.MethodPatch, path}:                       true,
		{http.MethodPatch, "/k8s/clusters/c-1" + path}: true,
		{http.MethodPatch, path + "/status"}:           false,
		{http.MethodPatch, "/apis/nginx-stream.jeffthecoder.xyz/v1beta1/streamingressclasses/db"}: false,
		{http.MethodPatch, "/api/v1/namespaces/team/services/db"}:                                 false,
		{http.MethodPut, path}:    false,
		{http.MethodPost, path}:   false,
		{http.MethodDelete, path}: false,
	} {
		r, err := http.NewRequestWithContext(t.Context(), request[0], "https://192.0.2.1"+request[1], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := movesStreams{passes{}}.RoundTrip(r)
		if (err == nil) != through {
			t.Errorf("%v: %v", request, err)
		}
		if answer != nil {
			_ = answer.Body.Close()
		}
	}
}

// TestMovePatches holds that the class is changed and nothing else, of the stream as it was read.
func TestMovePatches(t *testing.T) {
	s := streamOf("public", "db")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if got, want := string(body), `{"metadata":{"resourceVersion":"1","uid":"db"},"spec":{"className":"edge"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := r.Header.Get("Content-Type"), "application/merge-patch+json"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		const path = "/apis/nginx-stream.jeffthecoder.xyz/v1beta1/namespaces/team/streamingresses/db"
		if got, want := r.Method+" "+r.URL.String(), "PATCH "+path+"?dryRun=All&fieldManager=kubectl-portcullis"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		next := s.DeepCopy()
		next.APIVersion, next.Kind = "nginx-stream.jeffthecoder.xyz/v1beta1", "StreamIngress"
		next.Spec.ClassName = "edge"
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("Warning", `299 - "as it is"`)
		if err := json.NewEncoder(w).Encode(next); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	known := scheme()
	a := &apiServer{
		config: &rest.Config{Host: server.URL}, scheme: known, codecs: serializer.NewCodecFactory(known),
		params: runtime.NewParameterCodec(known), clients: map[schema.GroupVersion]rest.Interface{},
	}
	next, warnings, err := a.Move(t.Context(), s, "edge", true)
	if err != nil || next.Spec.ClassName != "edge" || !slices.Equal(warnings, []string{"as it is"}) {
		t.Errorf("got %v, %q, %v", next, warnings, err)
	}
}
