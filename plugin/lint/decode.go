package lint

import (
	"context"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merge makes of a stored object, nil for none, what kubectl apply has the API server make of it: what the manifest names anew or
// differently is changed, and what it has named at its last application, and does no longer, is removed.
func merge(scheme *runtime.Scheme, kind judgedKind, before, manifest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	plain, err := plainOf(manifest)
	if err != nil {
		return nil, err
	}
	manifest = &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(plain); err != nil { // which tells whole numbers from others
		return nil, apierrors.NewBadRequest(err.Error())
	}
	manifest.SetGroupVersionKind(kind.GroupVersionKind)
	annotations := manifest.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(plain)
	manifest.SetAnnotations(annotations)
	if before == nil {
		return manifest, nil
	}
	last := []byte(before.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	modified, err := manifest.MarshalJSON()
	if err != nil {
		return nil, err
	}
	before = before.DeepCopy()
	before.SetGroupVersionKind(kind.GroupVersionKind)
	current, err := before.MarshalJSON()
	if err != nil {
		return nil, err
	}
	merged, err := mergeJSON(scheme, kind, last, modified, current)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(merged); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}

// plainOf is a manifest as kubectl notes it: without what it has noted itself.
func plainOf(manifest *unstructured.Unstructured) ([]byte, error) {
	u := manifest.DeepCopy()
	if annotations := u.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		u.SetAnnotations(annotations)
	}
	return u.MarshalJSON()
}

// mergeJSON merges three versions, with the lists of kinds that the API server itself has by their keys.
func mergeJSON(scheme *runtime.Scheme, kind judgedKind, last, modified, current []byte) ([]byte, error) {
	typed, err := scheme.New(kind.GroupVersionKind)
	if err != nil || strings.Contains(kind.Group, ".") && kind.Group != "networking.k8s.io" && kind.Group != "discovery.k8s.io" {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, modified, current)
		if err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(current, patch)
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(last, modified, current, lookup, true)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(current, patch, typed)
}

// decode validates a new object (before is nil), or the change of one, and makes it what webhooks are asked about. after becomes what is
// stored.
func (l *Linter) decode(ctx context.Context, kind judgedKind, before, after *unstructured.Unstructured) (client.Object, error) {
	d := l.definitions[kind.GroupKind()]
	if d != nil {
		paths, err := d.unknown(after)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err := strict(after, paths); err != nil {
			return nil, err
		}
		defaulting.Default(after.Object, d.structural)
	}
	if d == nil || d.hasStatus {
		setStatus(before, after)
	}
	setMeta(before, after)
	if d != nil {
		if errs := d.validate(ctx, before, after); len(errs) > 0 {
			return nil, apierrors.NewInvalid(kind.GroupKind(), after.GetName(), errs)
		}
	}
	typed, err := l.scheme.New(kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after.Object, typed, true); err != nil {
		if unknown, is := runtime.AsStrictDecodingError(err); is {
			return nil, strict(after, pathsOf(unknown.Errors()))
		}
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj := typed.(client.Object)
	complete(obj)
	return obj, nil
}

// setStatus has a new object (before is nil) come without a status, and a stored one keep its own. Only of a node is it stored as given.
func setStatus(before, after *unstructured.Unstructured) {
	if before == nil && after.GetKind() == "Node" {
		return
	}
	delete(after.Object, "status")
	if before != nil && before.Object["status"] != nil {
		after.Object["status"] = before.Object["status"]
	}
}

// pathsOf are the fields that the errors of strict decoding are about.
func pathsOf(errs []error) (paths []string) {
	for _, err := range errs {
		path := strings.TrimSuffix(strings.TrimPrefix(err.Error(), `unknown field "`), `"`)
		paths = append(paths, path)
	}
	return paths
}

// setMeta has the API server's part of the metadata of a new object (before is nil), or of the change of one.
func setMeta(before, after *unstructured.Unstructured) {
	if before == nil {
		initialize(after)
		return
	}
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetManagedFields(before.GetManagedFields())
	after.SetGeneration(before.GetGeneration())
	if !equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
}
