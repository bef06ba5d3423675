package claim

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var claimsResource = schema.GroupResource{Group: v1beta1.GroupName, Resource: "edgeclaims"}

// memory is a Store that answers as the API server does. The zero value is an empty one.
type memory struct {
	stored  map[string]*v1beta1.EdgeClaim
	version int
	// writes counts what was stored, changed and deleted.
	writes int
	// fail, if set, is asked before every call; its error is the answer.
	fail func(verb string) error
	// before, if set, runs before every call.
	before func(verb string)
}

func (m *memory) begin(verb string) error {
	if m.before != nil {
		m.before(verb)
	}
	if m.fail != nil {
		return m.fail(verb)
	}
	return nil
}

// Get implements Store.
func (m *memory) Get(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	if err := m.begin("get"); err != nil {
		return nil, err
	}
	if c, ok := m.stored[name]; ok {
		return c.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(claimsResource, name)
}

// List implements Store.
func (m *memory) List(_ context.Context, scope, _ string) ([]v1beta1.EdgeClaim, error) {
	if err := m.begin("list"); err != nil {
		return nil, err
	}
	var found []v1beta1.EdgeClaim
	for _, name := range slices.Sorted(maps.Keys(m.stored)) {
		if c := m.stored[name]; c.Spec.Scope == scope {
			found = append(found, *c.DeepCopy())
		}
	}
	return found, nil
}

// Create implements Store.
func (m *memory) Create(_ context.Context, c *v1beta1.EdgeClaim) error {
	if err := m.begin("create"); err != nil {
		return err
	}
	if c.ResourceVersion != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if _, exists := m.stored[c.Name]; exists {
		return apierrors.NewAlreadyExists(claimsResource, c.Name)
	}
	c.UID = types.UID("claim-" + strconv.Itoa(m.version+1))
	c.CreationTimestamp = metav1.Unix(int64(m.version), 0)
	m.put(c)
	return nil
}

// Update implements Store. An update that changes nothing keeps the version, as the API server has it.
func (m *memory) Update(_ context.Context, c *v1beta1.EdgeClaim) error {
	if err := m.begin("update"); err != nil {
		return err
	}
	if err := m.match(c); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(m.stored[c.Name].Spec, c.Spec) {
		m.put(c)
	}
	return nil
}

// Delete implements Store.
func (m *memory) Delete(_ context.Context, c *v1beta1.EdgeClaim) error {
	if err := m.begin("delete"); err != nil {
		return err
	}
	if err := m.match(c); err != nil {
		return err
	}
	delete(m.stored, c.Name)
	m.writes++
	return nil
}

// match says whether the stored claim is the version that was passed.
func (m *memory) match(c *v1beta1.EdgeClaim) error {
	switch now, exists := m.stored[c.Name]; {
	case !exists:
		return apierrors.NewNotFound(claimsResource, c.Name)
	case now.UID != c.UID || now.ResourceVersion != c.ResourceVersion:
		return apierrors.NewConflict(claimsResource, c.Name, nil)
	}
	return nil
}

func (m *memory) put(c *v1beta1.EdgeClaim) {
	m.version++
	m.writes++
	c.ResourceVersion = strconv.Itoa(m.version)
	if m.stored == nil {
		m.stored = map[string]*v1beta1.EdgeClaim{}
	}
	m.stored[c.Name] = c.DeepCopy()
}

// seed stores a claim as it is given, and returns it with its version.
func (m *memory) seed(c *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	c = c.DeepCopy()
	c.UID = types.UID("claim-" + strconv.Itoa(m.version+1))
	m.put(c)
	return c
}
