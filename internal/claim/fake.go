package claim

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Fake is a Store in memory for tests, which answers as the API server does, with the same errors. The zero value is an empty
// one. It is safe for concurrent use, except for its hooks, which are to be set before.
type Fake struct {
	// Fail, if set, is asked before every call, with its verb: get, list, create, update, delete. Its error is the answer.
	Fail func(verb string) error
	// Before, if set, runs before every call.
	Before func(verb string)

	mu      sync.Mutex
	stored  map[string]*v1beta1.EdgeClaim
	scopes  map[string]map[string]*v1beta1.EdgeClaim // by scope and name
	version int
	// writes counts what was stored, changed and deleted.
	writes int
}

var (
	_              Store = &Fake{}
	claimsResource       = schema.GroupResource{Group: v1beta1.GroupName, Resource: "edgeclaims"}
)

// NewFake makes a store that holds these claims. They are given a UID and a version where they have none, and then copied.
func NewFake(claims ...*v1beta1.EdgeClaim) *Fake {
	f := &Fake{}
	for _, c := range claims {
		f.put(c)
	}
	f.writes = 0
	return f
}

// Get implements Store.
func (f *Fake) Get(_ context.Context, name string) (found *v1beta1.EdgeClaim, err error) {
	err = f.do("get", func() error {
		c, exists := f.stored[name]
		if !exists {
			return apierrors.NewNotFound(claimsResource, name)
		}
		found = c.DeepCopy()
		return nil
	})
	return found, err
}

// List implements Store.
func (f *Fake) List(_ context.Context, scope, _ string) (found []v1beta1.EdgeClaim, err error) {
	err = f.do("list", func() error {
		for _, name := range slices.Sorted(maps.Keys(f.scopes[scope])) {
			found = append(found, *f.stored[name].DeepCopy())
		}
		return nil
	})
	return found, err
}

// Create implements Store.
func (f *Fake) Create(_ context.Context, c *v1beta1.EdgeClaim) error {
	return f.do("create", func() error {
		if c.ResourceVersion != "" {
			return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
		}
		if _, exists := f.stored[c.Name]; exists {
			return apierrors.NewAlreadyExists(claimsResource, c.Name)
		}
		c.UID, c.CreationTimestamp = "", metav1.Unix(int64(f.version), 0)
		f.put(c)
		return nil
	})
}

// Update implements Store. An update that changes nothing keeps the version, as the API server has it.
func (f *Fake) Update(_ context.Context, c *v1beta1.EdgeClaim) error {
	return f.do("update", func() error {
		if err := f.match(c); err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(f.stored[c.Name].Spec, c.Spec) {
			f.put(c)
		}
		return nil
	})
}

// Delete implements Store.
func (f *Fake) Delete(_ context.Context, c *v1beta1.EdgeClaim) error {
	return f.do("delete", func() error {
		if err := f.match(c); err != nil {
			return err
		}
		f.drop(c.Name)
		f.writes++
		return nil
	})
}

// Drop removes a claim, whoever holds it; nothing happens where there is none.
func (f *Fake) Drop(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(name)
}

func (f *Fake) do(verb string, call func() error) error {
	if f.Before != nil {
		f.Before(verb)
	}
	if f.Fail != nil {
		if err := f.Fail(verb); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return call()
}

// match says whether the stored claim is the version that was passed.
func (f *Fake) match(c *v1beta1.EdgeClaim) error {
	switch now, exists := f.stored[c.Name]; {
	case !exists:
		return apierrors.NewNotFound(claimsResource, c.Name)
	case now.UID != c.UID || now.ResourceVersion != c.ResourceVersion:
		return apierrors.NewConflict(claimsResource, c.Name, nil)
	}
	return nil
}

func (f *Fake) put(c *v1beta1.EdgeClaim) {
	if f.stored == nil {
		f.stored, f.scopes = map[string]*v1beta1.EdgeClaim{}, map[string]map[string]*v1beta1.EdgeClaim{}
	}
	f.version++
	f.writes++
	c.ResourceVersion = strconv.Itoa(f.version)
	if c.UID == "" {
		c.UID = types.UID("claim-" + c.ResourceVersion)
	}
	f.drop(c.Name)
	stored := c.DeepCopy()
	f.stored[c.Name] = stored
	if f.scopes[c.Spec.Scope] == nil {
		f.scopes[c.Spec.Scope] = map[string]*v1beta1.EdgeClaim{}
	}
	f.scopes[c.Spec.Scope][c.Name] = stored
}

func (f *Fake) drop(name string) {
	if c, exists := f.stored[name]; exists {
		delete(f.stored, name)
		delete(f.scopes[c.Spec.Scope], name)
	}
}
