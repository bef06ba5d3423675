package lint

import (
	"context"
	"fmt"
	"io/fs"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/config/crd"
)

// definition is a kind of ours as the API server knows it by its CustomResourceDefinition, in the version that is stored.
type definition struct {
	kind       schema.GroupVersionKind
	isCluster  bool
	hasStatus  bool
	structural *structuralschema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// definitions are those of all kinds of ours.
func definitions() (map[schema.GroupKind]*definition, error) {
	all := map[schema.GroupKind]*definition{}
	files, err := fs.Glob(crd.Bases, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := crd.Bases.ReadFile(file)
		if err != nil {
			return nil, err
		}
		of := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, of); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		d, err := newDefinition(of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[d.kind.GroupKind()] = d
	}
	return all, nil
}

func newDefinition(of *apiextensionsv1.CustomResourceDefinition) (*definition, error) {
	version := of.Spec.Versions[0]
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		version.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	openAPI, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &definition{
		kind:       schema.GroupVersionKind{Group: of.Spec.Group, Version: version.Name, Kind: of.Spec.Names.Kind},
		isCluster:  of.Spec.Scope == apiextensionsv1.ClusterScoped,
		hasStatus:  version.Subresources != nil && version.Subresources.Status != nil,
		structural: structural, openAPI: openAPI,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// unknown removes the fields from an object that its kind does not have, and returns their paths. It fails where the metadata are none.
func (d *definition) unknown(u *unstructured.Unstructured) ([]string, error) {
	metadata, found, paths, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	kind := u.GroupVersionKind()
	paths = append(paths, pruning.PruneWithOptions(u.Object, d.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, d.structural)
	coerceErr, coerced := objectmeta.CoerceWithOptions(nil, u.Object, d.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if coerceErr != nil {
		return nil, coerceErr
	}
	u.SetGroupVersionKind(kind)
	if found {
		err = objectmeta.SetObjectMeta(u.Object, metadata)
	}
	return append(paths, coerced...), err
}

// validate says what the API server says of a new object (before is nil), or of the change of one: as its strategy for custom resources
// does, by the functions that this calls.
func (d *definition) validate(ctx context.Context, before, u *unstructured.Unstructured) field.ErrorList {
	errs := d.validateSchema(ctx, before, u)
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	if d.rules == nil {
		return errs
	}
	var old any
	var options []cel.Option
	if before != nil {
		old = before.Object
		options = append(options, cel.WithRatcheting(d.correlate(before, u)))
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, u.Object, old, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, broken...)
}

// validateSchema is validate but for the rules in CEL.
func (d *definition) validateSchema(ctx context.Context, before, u *unstructured.Unstructured) (errs field.ErrorList) {
	path := field.NewPath("metadata")
	after, _, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(path, nil, err.Error())}
	}
	if before == nil {
		errs = metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, after, nil, !d.isCluster,
			metavalidation.NameIsDNSSubdomain, path, true)
		errs = append(errs, validation.ValidateCustomResource(nil, u.Object, d.openAPI)...)
	} else {
		was, _, err := objectmeta.GetObjectMeta(before.Object, false)
		if err != nil {
			return field.ErrorList{field.Invalid(path, nil, err.Error())}
		}
		errs = metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, after, was, !d.isCluster, nil, path, true)
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, u.Object, before.Object, d.openAPI,
			validation.WithRatcheting(d.correlate(before, u)))...)
	}
	errs = append(errs, objectmeta.Validate(ctx, nil, u.Object, d.structural, false)...)
	if before == nil || len(listtype.ValidateListSetsAndMaps(nil, d.structural, before.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	}
	return errs
}

func (d *definition) correlate(before, u *unstructured.Unstructured) *common.CorrelatedObject {
	return common.NewCorrelatedObject(u.Object, before.Object, &model.Structural{Structural: d.structural})
}
