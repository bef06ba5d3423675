package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// mover is a cluster in which streams can be moved. Its errors are those of the API.
type mover interface {
	cluster
	// Stream reads one.
	Stream(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error)
	// Move has a stream name a class, and returns it as it is then, and what the API server warns of. It is a Conflict if the stream is no
	// longer as it was read.
	Move(ctx context.Context, s *v1beta1.StreamIngress, class string, dryRun bool) (next *v1beta1.StreamIngress, warnings []string, err error)
}

// moveManager is the field manager of what Move writes.
const moveManager = "kubectl-portcullis"

// connectToMove opens the cluster that the flags name, to read it and to move streams.
func connectToMove(t *tool) (mover, error) {
	a, err := t.server(func(next http.RoundTripper) http.RoundTripper { return movesStreams{next} })
	if err == nil {
		a.config.WarningHandler = tellWarnings{t}
	}
	return a, err
}

// movesStreams lets nothing pass but what reads, and patches of StreamIngresses; their status is none of its business.
type movesStreams struct{ next http.RoundTripper }

// streamPath ends the path of a StreamIngress. What is before it is the address of the API server, which may have a path.
var streamPath = regexp.MustCompile(`/apis/` + regexp.QuoteMeta(v1beta1.GroupVersion.String()) + `/namespaces/[^/]+/streamingresses/[^/]+$`)

// RoundTrip passes on what reads or moves, and refuses all else.
func (r movesStreams) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && streamPath.MatchString(request.URL.Path) {
		return r.next.RoundTrip(request)
	}
	return readOnly(r).RoundTrip(request)
}

// tellWarnings tells what the API server warns of.
type tellWarnings struct{ *tool }

// HandleWarningHeader implements rest.WarningHandler.
func (w tellWarnings) HandleWarningHeader(_ int, _, text string) { line(w.ErrOut, "Warning: %s", text) }

// collectWarnings keeps what the API server warns of.
type collectWarnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *collectWarnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Stream reads one.
func (a *apiServer) Stream(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error) {
	client, err := a.client(v1beta1.GroupVersion)
	if err != nil {
		return nil, err
	}
	s := &v1beta1.StreamIngress{}
	err = client.Get().Namespace(key.Namespace).Resource(streamsPlural).Name(key.Name).Do(ctx).Into(s)
	return s, err
}

// Move changes spec.className, and nothing else, of the stream of that UID and version.
func (a *apiServer) Move(
	ctx context.Context, s *v1beta1.StreamIngress, class string, dryRun bool,
) (next *v1beta1.StreamIngress, warnings []string, err error) {
	client, err := a.client(v1beta1.GroupVersion)
	if err != nil {
		return nil, nil, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.UID, "resourceVersion": s.ResourceVersion},
		"spec":     map[string]any{"className": class},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("patch of %s/%s: %w", s.Namespace, s.Name, err)
	}
	options := &metav1.PatchOptions{FieldManager: moveManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	next = &v1beta1.StreamIngress{}
	said := &collectWarnings{}
	err = client.Patch(types.MergePatchType).WarningHandler(said).Namespace(s.Namespace).Resource(streamsPlural).Name(s.Name).
		VersionedParams(options, a.params).Body(patch).Do(ctx).Into(next)
	return next, said.texts, err
}
