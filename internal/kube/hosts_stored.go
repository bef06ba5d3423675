package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// Stored are the host names that objects of a namespace use, and the paths that its routes serve, as they are stored now, and the versions
// of these objects.
type Stored struct {
	Hosts    map[string]bool
	Paths    map[claim.Coordinate]bool
	Versions map[types.UID]string
}

// StoredIn reads past the cache which host names a namespace uses, and which paths its routes serve.
func (h *Hosts) StoredIn(ctx context.Context, live client.Reader, namespace string) (Stored, error) {
	stored := Stored{Hosts: map[string]bool{}, Paths: map[claim.Coordinate]bool{}, Versions: map[types.UID]string{}}
	for _, k := range h.users() {
		for page, err := range PagesOf(ctx, live, k.list, pageOfUsers, client.InNamespace(namespace)) {
			if meta.IsNoMatchError(err) {
				break
			}
			if err != nil {
				return stored, err
			}
			err = meta.EachListItem(page, func(obj runtime.Object) error {
				o := obj.(client.Object)
				user, err := h.Names(ctx, o, h.ParentsNow())
				if all, _ := hostname.Of(o, h.http.Defaults); k.kind == guard.Ingress { // which serves them, judged or not
					user.Names = append(user.Names, all.Names...)
				}
				for _, n := range user.Names {
					stored.Hosts[n.Host] = true
				}
				stored.Versions[o.GetUID()] = o.GetResourceVersion()
				if err != nil {
					return err
				}
				return h.notePaths(ctx, o, h.ParentsNow(), stored.Paths)
			})
			if err != nil {
				return stored, err
			}
		}
	}
	return stored, nil
}

// pageOfUsers is how many objects are read past the cache at a time.
const pageOfUsers = 100
