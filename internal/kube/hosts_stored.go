package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Stored are the host names that objects of a namespace use, and the paths that its routes serve, as they are stored now, and the versions
// of these objects.
type Stored struct {
	Hosts    map[string]bool
	Paths    map[claim.Coordinate]bool
	Versions map[types.UID]string
}

// Look is one look past the cache at what namespaces use. Whatever their objects attach to is read once for it: thousands may share it, or
// name what is not there. It is at least as late as what any admission has gone by, and for one goroutine.
type Look struct {
	hosts    *Hosts
	live     client.Reader
	parents  map[guard.ParentKey]*guard.Parent
	gateways map[types.NamespacedName]*gatewayv1.Gateway
	labels   map[string]labels.Set
}

// Look begins a look by a reader past the cache.
func (h *Hosts) Look(live client.Reader) *Look {
	return &Look{
		hosts: h, live: live, parents: map[guard.ParentKey]*guard.Parent{}, gateways: map[types.NamespacedName]*gatewayv1.Gateway{},
		labels: map[string]labels.Set{},
	}
}

// In reads which host names a namespace uses, and which paths its routes serve. Of what is not asked for nothing is read: where names are
// not, that is what only uses names.
func (l *Look) In(ctx context.Context, namespace string, names, paths bool) (Stored, error) {
	stored := Stored{Hosts: map[string]bool{}, Paths: map[claim.Coordinate]bool{}, Versions: map[types.UID]string{}}
	kinds := l.hosts.users()
	if !names {
		kinds = l.hosts.pathKinds()
	}
	for _, k := range kinds {
		for page, err := range PagesOf(ctx, l.live, k.list, pageOfUsers, client.InNamespace(namespace)) {
			if meta.IsNoMatchError(err) {
				break
			}
			if err == nil {
				err = meta.EachListItem(page, func(obj runtime.Object) error {
					return l.note(ctx, obj.(client.Object), k.kind, stored, names, paths)
				})
			}
			if err != nil {
				return stored, err
			}
		}
	}
	return stored, nil
}

// pageOfUsers is how many objects are read past the cache at a time.
const pageOfUsers = 100

// note notes what an object uses.
func (l *Look) note(ctx context.Context, obj client.Object, kind guard.Kind, stored Stored, names, paths bool) error {
	stored.Versions[obj.GetUID()] = obj.GetResourceVersion()
	if names {
		user, err := l.hosts.names(ctx, obj, l.labelsOf, l.parent)
		if err != nil {
			return err
		}
		if all, _ := hostname.Of(obj, l.hosts.http.Defaults); kind == guard.Ingress { // which serves them, judged or not
			user.Names = append(user.Names, all.Names...)
		}
		for _, n := range user.Names {
			stored.Hosts[n.Host] = true
		}
	}
	if !paths {
		return nil
	}
	return l.hosts.notePaths(ctx, obj, l.labelsOf, l.parent, stored.Paths)
}

// parent reads what routes attach to; nil for what is not there, and for a ListenerSet that no Gateway lets attach.
func (l *Look) parent(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
	if !isName(key.Name) || !isName(key.Namespace) {
		return nil, nil
	}
	return readOnce(ctx, l.parents, key, func(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
		if key.Kind != guard.Gateway {
			return l.set(ctx, key.NamespacedName)
		}
		gateway, err := l.gateway(ctx, key.NamespacedName)
		if err != nil || gateway == nil {
			return nil, err
		}
		return guard.ParentOfGateway(gateway), nil
	})
}

func (l *Look) gateway(ctx context.Context, key types.NamespacedName) (*gatewayv1.Gateway, error) {
	if !isName(key.Name) || !isName(key.Namespace) {
		return nil, nil
	}
	return readOnce(ctx, l.gateways, key, func(ctx context.Context, key types.NamespacedName) (*gatewayv1.Gateway, error) {
		return readInstalled[gatewayv1.Gateway](ctx, l.live, key)
	})
}

// set is a ListenerSet that its Gateway lets attach, or that is one of ours.
func (l *Look) set(ctx context.Context, key types.NamespacedName) (*guard.Parent, error) {
	set, err := readSet(ctx, l.live, key)
	if err != nil || set == nil {
		return nil, err
	}
	if own, err := l.hosts.gateways.IsOwn(ctx, set); err != nil || own {
		return guard.ParentOfListenerSet(set, set.Labels[v1beta1.LabelClass]), err
	}
	gateway, err := l.gateway(ctx, GatewayOf(set))
	if err != nil || gateway == nil {
		return nil, err
	}
	has, err := l.labelsOf(ctx, set.Namespace)
	if err != nil || !stream.AllowsListeners(gateway, set.Namespace, has) {
		return nil, err
	}
	return guard.ParentOfListenerSet(set, ""), nil
}

// labelsOf are the labels of a namespace, none where there is none.
func (l *Look) labelsOf(ctx context.Context, namespace string) (labels.Set, error) {
	return readOnce(ctx, l.labels, namespace, func(ctx context.Context, name string) (labels.Set, error) {
		return labelsBy(ctx, l.live, name)
	})
}
