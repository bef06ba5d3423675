package plugin

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// cluster is what is read. Its errors are those of the API.
type cluster interface {
	// Each calls a function with each object of a kind in a namespace, or in all if that is empty, as far as a field selector takes them.
	// The object is the caller's.
	Each(ctx context.Context, k *kind, namespace, fields string, call func(runtime.Object)) error
	// ConfigMap reads one.
	ConfigMap(ctx context.Context, key types.NamespacedName) (*corev1.ConfigMap, error)
}

// pageSize is how many objects are asked for at a time.
const pageSize = 500

// apiServer is a cluster, behind its API server.
type apiServer struct {
	config *rest.Config
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	params runtime.ParameterCodec
	// clients are those that are open, by version.
	clients map[schema.GroupVersion]rest.Interface
}

// connect opens the cluster that the flags name, to read it.
func connect(t *tool) (cluster, error) {
	return t.server(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
}

// server is the API server that the flags name; limits keeps off it what must not be asked.
func (t *tool) server(limits func(http.RoundTripper) http.RoundTripper) (*apiServer, error) {
	config, err := t.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kubectl-portcullis/" + t.version
	config.QPS, config.Burst = 50, 100
	config.Wrap(limits)
	known := scheme()
	return &apiServer{
		config: config, scheme: known, codecs: serializer.NewCodecFactory(known), params: runtime.NewParameterCodec(known),
		clients: map[schema.GroupVersion]rest.Interface{},
	}, nil
}

// readOnly lets nothing pass that could change anything.
type readOnly struct{ next http.RoundTripper }

// RoundTrip passes on what reads, and refuses all else.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s would change something", request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}

// client is one for the kinds of a version.
func (a *apiServer) client(version schema.GroupVersion) (rest.Interface, error) {
	if c := a.clients[version]; c != nil {
		return c, nil
	}
	config := rest.CopyConfig(a.config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = a.codecs.WithoutConversion()
	if isBuiltIn(version.Group) {
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	}
	c, err := rest.RESTClientFor(config)
	if err == nil {
		a.clients[version] = c
	}
	return c, err
}

// isBuiltIn says whether the API server itself has a group, and so speaks protobuf about it.
func isBuiltIn(group string) bool {
	return group == corev1.GroupName || group == "apps" || group == "networking.k8s.io" || group == "discovery.k8s.io"
}

// Each reads page by page.
func (a *apiServer) Each(ctx context.Context, k *kind, namespace, fields string, call func(runtime.Object)) error {
	client, err := a.client(k.version)
	if err != nil {
		return err
	}
	p := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := a.scheme.New(k.list())
		if err != nil {
			return nil, err
		}
		err = client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.plural).
			VersionedParams(&options, a.params).Do(ctx).Into(page)
		return page, err
	})
	p.PageSize, p.PageBufferSize = pageSize, 1
	return p.EachListItemWithAlloc(ctx, metav1.ListOptions{FieldSelector: fields}, func(obj runtime.Object) error {
		call(obj)
		return nil
	})
}

// ConfigMap reads one.
func (a *apiServer) ConfigMap(ctx context.Context, key types.NamespacedName) (*corev1.ConfigMap, error) {
	client, err := a.client(corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{}
	err = client.Get().Namespace(key.Namespace).Resource("configmaps").Name(key.Name).Do(ctx).Into(cm)
	return cm, err
}
