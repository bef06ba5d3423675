package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// checkPush returns an error if the registry can't be reached, or does not take images of this name from the user whose
// credentials are in the Docker configuration.
func checkPush(ctx context.Context, tag name.Tag) error {
	// The library's function takes no context; without one, an interrupt would wait for a registry that does not answer.
	cancelable := roundTripper(func(r *http.Request) (*http.Response, error) {
		return remote.DefaultTransport.RoundTrip(r.WithContext(ctx))
	})
	return during("asking "+tag.RegistryStr()+" whether it lets you push", "", func() error {
		return explain(tag, remote.CheckPushPermission(tag, authn.DefaultKeychain, cancelable))
	})
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip answers the request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// push writes the image to its registry, with what the registry does not have yet.
func push(ctx context.Context, tag name.Tag, index v1.ImageIndex) error {
	return during("pushing "+canonical(tag), "", func() error {
		return explain(tag, remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)))
	})
}

// explain says what failed, and what to do about it where that is known.
func explain(tag name.Tag, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%s does not let you push %s (docker login gives credentials, and so does a config.json in $DOCKER_CONFIG): %w",
				tag.RegistryStr(), tag.RepositoryStr(), err)
		}
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s can't be reached: %w", tag.RegistryStr(), err)
	}
	return fmt.Errorf("push to %s: %w", tag.RegistryStr(), err)
}
