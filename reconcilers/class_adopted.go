package reconcilers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/rules"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// An entry that somebody else has written may be taken over by a stream that says the same. The claim remembers what stood
// there. When the stream leaves, the claim is the ConfigMap's, and the class says what becomes of the entry: it is written
// back before the stream's is taken away, so that the port never closes, or it goes for good. Then the claim forgets it.

// giveBack settles the entries that were taken over at points of a class, nil when it is deleted. A Conflict error says that
// something was written, and that the cache has yet to show it.
func (r *classReconciler) giveBack(
	ctx context.Context, name string, class *v1beta1.StreamIngressClass, claims map[claim.Coordinate]*v1beta1.EdgeClaim,
) error {
	var errs []error
	for at, c := range claims {
		if c.Spec.Adopted == nil {
			continue
		}
		leaves, err := r.leaves(ctx, name, class, at, claims)
		switch {
		case err != nil:
		case leaves:
			err = r.settleAdopted(ctx, class, at, c)
		default:
			err = r.forgetRemoved(ctx, at, c)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leaves says whether the stream that has taken over an entry has left, or is about to. All of them leave a class that is
// deleted: their ports are closed.
func (r *classReconciler) leaves(
	ctx context.Context, name string, class *v1beta1.StreamIngressClass, at claim.Coordinate,
	claims map[claim.Coordinate]*v1beta1.EdgeClaim,
) (bool, error) {
	holder := claim.HolderOf(claims[at])
	if class == nil || !holder.IsStream() {
		return true, nil
	}
	si, err := r.view.Stream(ctx, holder.Key())
	if err != nil || si == nil {
		return si == nil, err
	}
	if other := cluster.ClassName(si); other != "" && other != name {
		return true, nil
	}
	var held []claim.Coordinate
	for at, c := range claims {
		if claim.HolderOf(c) == holder {
			held = append(held, at)
		}
	}
	return rules.Wanted(si, name, held) != at, nil
}

// settleAdopted takes one step towards what the class wants of an entry that was taken over.
func (r *classReconciler) settleAdopted(
	ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate, c *v1beta1.EdgeClaim,
) error {
	adopted, in, left := claim.Adopted(c)
	cm, err := r.view.ConfigMap(ctx, v1beta1.ObjectReference{Namespace: in.Namespace, Name: in.Name})
	if err != nil {
		return err
	}
	if cm != nil {
		standing, err := r.view.Entries(cm)
		if err != nil {
			return err
		}
		foreign, stands := standing.Foreign[at.Port()]
		take := class != nil && class.Spec.Adopt == v1beta1.AdoptTake
		switch {
		case take && stands && left:
			return r.removeEntry(ctx, cm, at.Port())
		case !take && foreign != adopted.Entry:
			return r.returnEntry(ctx, cm, standing, at.Port(), adopted.Entry)
		}
	}
	if !left {
		return nil
	}
	return r.remember(ctx, c, nil)
}

// remember changes what a claim remembers of an entry. Of a claim that has changed, the next pass makes another picture.
func (r *classReconciler) remember(ctx context.Context, c *v1beta1.EdgeClaim, adopted *v1beta1.AdoptedEntry) error {
	return client.IgnoreNotFound(r.ledger.Remember(ctx, c, adopted))
}

// forgetRemoved leaves a port to its stream for good when somebody has removed the entry at its source. Only what is stored
// tells: a cache may not show the entry yet.
func (r *classReconciler) forgetRemoved(ctx context.Context, at claim.Coordinate, c *v1beta1.EdgeClaim) error {
	adopted, in, _ := claim.Adopted(c)
	removed := func(cm *corev1.ConfigMap, err error) (bool, error) {
		if err != nil || cm == nil {
			return false, err
		}
		standing, err := stream.Entries(cm)
		_, stands := standing.Foreign[at.Port()]
		return err == nil && !stands, err
	}
	if adopted.Replaced {
		return nil
	}
	if gone, err := removed(r.view.ConfigMap(ctx, v1beta1.ObjectReference{Namespace: in.Namespace, Name: in.Name})); err != nil || !gone {
		return err
	}
	cm := &corev1.ConfigMap{}
	if err := r.live.Get(ctx, in.Key(), cm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if gone, err := removed(cm, nil); err != nil || !gone {
		return err
	}
	return r.remember(ctx, c, nil)
}

// rememberReplaced notes which entries that were taken over are about to lead elsewhere: nobody else knows them then.
func (r *classReconciler) rememberReplaced(ctx context.Context, s *scene, cm configMap, wanted map[int32]stream.Entry) error {
	for at, c := range s.claims {
		adopted, _, left := claim.Adopted(c)
		if adopted == nil || left || adopted.Replaced || at.Protocol() != cm.protocol {
			continue
		}
		if entry, ok := wanted[at.Port()]; !ok || entry.String() == adopted.Entry {
			continue
		}
		replaced := *adopted
		replaced.Replaced = true
		if err := r.remember(ctx, c, &replaced); err != nil {
			return err
		}
	}
	return nil
}

// returnEntry writes an entry back, beside those that were written back before.
func (r *classReconciler) returnEntry(ctx context.Context, cm *corev1.ConfigMap, standing stream.Standing, port int32, entry string) error {
	if keep, err := r.mayClose(ctx, cm); err != nil || keep > 0 {
		return err
	}
	data := map[string]string{stream.Key(port): entry}
	for before := range standing.Returned {
		if before != port {
			data[stream.Key(before)] = standing.Data[stream.Key(before)]
		}
	}
	apply := corev1ac.ConfigMap(cm.Name, cm.Namespace).WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion).WithData(data)
	err := r.writer.Apply(ctx, apply, client.FieldOwner(stream.ReturnManager), client.ForceOwnership)
	return r.changed(ctx, cm, port, "wrote an entry back", err)
}

// removeEntry removes an entry, whoever else has written it.
func (r *classReconciler) removeEntry(ctx context.Context, cm *corev1.ConfigMap, port int32) error {
	if keep, err := r.mayClose(ctx, cm); err != nil || keep > 0 {
		return err
	}
	without := cm.DeepCopy()
	delete(without.Data, stream.Key(port))
	patch := client.MergeFromWithOptions(cm, client.MergeFromWithOptimisticLock{})
	return r.changed(ctx, cm, port, "removed an entry", r.writer.Patch(ctx, without, patch, client.FieldOwner(stream.FieldManager)))
}

// changed returns a Conflict error when a write succeeded: what follows from it needs the new version.
func (r *classReconciler) changed(ctx context.Context, cm *corev1.ConfigMap, port int32, what string, err error) error {
	if err != nil {
		return fmt.Errorf("settling port %d of ConfigMap %s: %w", port, client.ObjectKeyFromObject(cm), err)
	}
	log.FromContext(ctx).Info(what+" that a stream had taken over", "configMap", client.ObjectKeyFromObject(cm), "port", port)
	return apierrors.NewConflict(corev1.Resource("configmaps"), cm.Name, errors.New("it has just been written"))
}
