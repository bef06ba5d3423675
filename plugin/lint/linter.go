// Package lint says of manifests, one after the other, what applying them to a cluster with Portcullis says. It keeps what was admitted in
// memory, and has the same code decide on each manifest as decides there: that of the API server for CustomResourceDefinitions, and the
// webhooks of Portcullis, with their ledger, over caches that follow the objects in memory.
package lint

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/webhooks"
)

// Options are what there is to know of a cluster beside its objects.
type Options struct {
	// Settings are those of the replicas of Portcullis.
	Settings kube.Settings
	// CertManager says that cert-manager is installed.
	CertManager bool
	// KnowsNamespaces says that there are no namespaces but those that are added or applied. Without it, any that is named is there, without
	// labels of its own.
	KnowsNamespaces bool
}

// Linter is a cluster in memory. It is not safe for concurrent use.
type Linter struct {
	options     Options
	scheme      *runtime.Scheme
	definitions map[schema.GroupKind]*definition
	objects     *objects
	view        *kube.View
	ledger      *claim.Ledger
	judge       webhooks.Judge
	// written are objects of kinds of ours as they are stored: in Go's types, some fields that are not there look like empty ones.
	written map[objectKey]*unstructured.Unstructured
}

// objectKey is an object.
type objectKey struct {
	schema.GroupKind
	types.NamespacedName
}

func keyOf(obj client.Object, kind schema.GroupKind) objectKey {
	return objectKey{kind, client.ObjectKeyFromObject(obj)}
}

// New makes a cluster without objects. The error is one of this program's.
func New(ctx context.Context, options Options) (*Linter, error) {
	l := &Linter{options: options, scheme: runtime.NewScheme(), written: map[objectKey]*unstructured.Unstructured{}}
	err := errors.Join(
		clientgoscheme.AddToScheme(l.scheme), v1beta1.AddToScheme(l.scheme), gatewayv1.Install(l.scheme), gatewayv1beta1.Install(l.scheme),
		cmv1.AddToScheme(l.scheme),
	)
	if err != nil {
		return nil, err
	}
	if l.definitions, err = definitions(); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	if options.CertManager {
		mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind), meta.RESTScopeNamespace)
	}
	l.objects = newObjects(l.scheme)
	cached := newCaches(l.objects, kube.CacheOptions())
	if l.view, err = options.Settings.NewView(ctx, cached, l.objects, mapper, ""); err != nil {
		return nil, err
	}
	// What follows a cache under a lock has to begin while there is nothing: it is told of what is there before it goes on.
	if err := l.view.Consents.Follow(ctx); err != nil {
		return nil, err
	}
	l.view.Gateways.Ask()
	l.ledger = kube.NewLedger(l.objects, l.objects, l.view, claim.Ledger{Grace: claim.DefaultGrace, SideBySide: 1})
	l.judge = webhooks.NewJudge(webhooks.Options{View: l.view, Ledger: l.ledger, Guard: options.Settings.Guard, Events: noEvents{}})
	return l, nil
}

// noEvents tells nobody.
type noEvents struct{}

// Eventf implements events.EventRecorder.
func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// Add stores objects that a cluster has, as they are. The error is one of this program's.
func (l *Linter) Add(objects ...client.Object) error {
	for _, obj := range objects {
		if err := l.objects.add(obj); err != nil {
			return err
		}
	}
	return nil
}

// Verdict is what applying an object says.
type Verdict struct {
	// Judged says that the object is of a kind that decisions depend on. Others are not looked at.
	Judged bool
	// Refusals are why it is not stored, none if it is.
	Refusals []Problem
	Warnings []string
}

// Apply says what applying a manifest says after all that was added and applied before, and stores it if it is admitted. A namespace must
// be named if the kind has one. The manifest is not changed. The error says that nothing could be decided, which a manifest is no reason
// for.
func (l *Linter) Apply(ctx context.Context, manifest *unstructured.Unstructured) (Verdict, error) {
	kind, isJudged := l.kindOf(manifest.GroupVersionKind())
	if !isJudged {
		if manifest.GroupVersionKind().Group == v1beta1.GroupName {
			return Verdict{Judged: true, Refusals: []Problem{noKind(manifest)}}, nil
		}
		return Verdict{}, nil
	}
	if kind.isCluster && manifest.GetNamespace() != "" { // which the API server takes off
		manifest = manifest.DeepCopy()
		manifest.SetNamespace("")
	}
	v := Verdict{Judged: true}
	if manifest.GetName() == "" { // kubectl apply takes no generateName
		v.Refusals = []Problem{{
			Reason: string(metav1.CauseTypeFieldValueRequired), Field: "metadata.name", Message: "Required value: name is required",
		}}
		return v, nil
	}
	refused := l.inNamespace(manifest, kind)
	if refused == nil {
		v.Warnings, refused = l.apply(ctx, manifest, kind)
	}
	for _, err := range refused {
		if !isVerdict(err) {
			return v, fmt.Errorf("%s %s: %w", kind.Kind, client.ObjectKeyFromObject(manifest), err)
		}
		v.Refusals = append(v.Refusals, problemsOf(err)...)
	}
	return v, nil
}

// isVerdict says whether an error is about the object, and not that nothing could be decided.
func isVerdict(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) ||
		apierrors.IsForbidden(err)
}

// inNamespace refuses an object of a namespace that is not there.
func (l *Linter) inNamespace(manifest *unstructured.Unstructured, kind judgedKind) []error {
	name := manifest.GetNamespace()
	if kind.isCluster || name == "" || l.objects.stored[namespaceKind][types.NamespacedName{Name: name}] != nil {
		return nil
	}
	if l.options.KnowsNamespaces {
		return []error{apierrors.NewNotFound(corev1.Resource("namespaces"), name)}
	}
	ns := &corev1.Namespace{}
	ns.Name = name
	complete(ns)
	if err := l.objects.Create(context.Background(), ns); err != nil {
		return []error{err}
	}
	return nil
}

// apply decides on an object and stores it, as the API server does: what it was merged with what is applied, validated, judged, written.
func (l *Linter) apply(ctx context.Context, manifest *unstructured.Unstructured, kind judgedKind) (warnings []string, refused []error) {
	key := keyOf(manifest, kind.GroupKind())
	stored := l.objects.stored[kind.GroupKind()][key.NamespacedName]
	before, err := l.current(key, stored)
	if err != nil {
		return nil, []error{err}
	}
	after, err := merge(l.scheme, kind, before, manifest)
	if err != nil {
		return nil, []error{err}
	}
	obj, err := l.decode(ctx, kind, before, after)
	if err != nil {
		return nil, []error{err}
	}
	var was client.Object
	if stored != nil {
		was = stored.DeepCopyObject().(client.Object)
	} else {
		l.completeNew(obj)
	}
	if warnings, refused = l.judge.Validate(ctx, was, obj); len(refused) > 0 {
		return warnings, refused
	}
	if err := l.objects.put(obj); err != nil {
		return warnings, []error{err}
	}
	if l.definitions[kind.GroupKind()] != nil {
		after.SetResourceVersion(obj.GetResourceVersion())
		l.written[key] = after
	}
	if err := l.settle(ctx, obj); err != nil {
		refused = []error{err}
	}
	return warnings, refused
}

// current is a stored object as it was written, nil for none.
func (l *Linter) current(key objectKey, stored client.Object) (*unstructured.Unstructured, error) {
	if stored == nil {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if was := l.written[key]; was != nil {
		u.Object["spec"] = was.DeepCopy().Object["spec"]
	}
	return u, nil
}
