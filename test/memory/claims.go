package memory

import (
	"context"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Claims is a store of claims in memory, which answers as the API server does.
type Claims struct {
	mu      sync.Mutex
	stored  map[string]*v1beta1.EdgeClaim
	scopes  map[string]map[string]*v1beta1.EdgeClaim // by scope and name
	version int
}

var _ claim.Store = &Claims{}

// NewClaims makes a store that holds these claims.
func NewClaims(claims ...*v1beta1.EdgeClaim) *Claims {
	s := &Claims{stored: make(map[string]*v1beta1.EdgeClaim, len(claims)), scopes: map[string]map[string]*v1beta1.EdgeClaim{}}
	for _, c := range claims {
		s.put(c)
	}
	return s
}

// Get implements claim.Store.
func (s *Claims) Get(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.stored[name]; ok {
		return c.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(claimResource, name)
}

// List implements claim.Store.
func (s *Claims) List(_ context.Context, scope, _ string) ([]v1beta1.EdgeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []v1beta1.EdgeClaim
	for _, c := range s.scopes[scope] {
		found = append(found, *c.DeepCopy())
	}
	return found, nil
}

// Create implements claim.Store.
func (s *Claims) Create(_ context.Context, c *v1beta1.EdgeClaim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.stored[c.Name]; exists {
		return apierrors.NewAlreadyExists(claimResource, c.Name)
	}
	s.put(c)
	return nil
}

// Update implements claim.Store.
func (s *Claims) Update(_ context.Context, c *v1beta1.EdgeClaim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.match(c); err != nil {
		return err
	}
	s.put(c)
	return nil
}

// Delete implements claim.Store.
func (s *Claims) Delete(_ context.Context, c *v1beta1.EdgeClaim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.match(c); err != nil {
		return err
	}
	s.drop(c.Name)
	return nil
}

// Drop forgets a claim, whoever holds it.
func (s *Claims) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
}

func (s *Claims) match(c *v1beta1.EdgeClaim) error {
	switch now, exists := s.stored[c.Name]; {
	case !exists:
		return apierrors.NewNotFound(claimResource, c.Name)
	case now.UID != c.UID || now.ResourceVersion != c.ResourceVersion:
		return apierrors.NewConflict(claimResource, c.Name, nil)
	}
	return nil
}

func (s *Claims) put(c *v1beta1.EdgeClaim) {
	s.version++
	c.ResourceVersion = strconv.Itoa(s.version)
	if c.UID == "" {
		c.UID = types.UID("claim-" + c.ResourceVersion)
	}
	s.drop(c.Name)
	c = c.DeepCopy()
	s.stored[c.Name] = c
	if s.scopes[c.Spec.Scope] == nil {
		s.scopes[c.Spec.Scope] = map[string]*v1beta1.EdgeClaim{}
	}
	s.scopes[c.Spec.Scope][c.Name] = c
}

func (s *Claims) drop(name string) {
	c, exists := s.stored[name]
	if !exists {
		return
	}
	delete(s.stored, name)
	delete(s.scopes[c.Spec.Scope], name)
}

var claimResource = schema.GroupResource{Group: v1beta1.GroupName, Resource: "edgeclaims"}
