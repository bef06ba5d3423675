package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// An entry that somebody else has written may be taken over by a stream that says the same. The claim remembers what stood
// there, and whether the stream was granted the port: one that was promised it and never stored has taken over nothing. When
// the stream leaves, the claim is the ConfigMap's, and the class says what becomes of the entry: it is written back before the
// stream's is taken away, so that the port never closes, or it goes for good. Then the claim forgets it.

// adoption is an entry that a stream has taken over, as the claim on its port remembers it.
type adoption struct {
	*v1beta1.AdoptedEntry
	port  stream.PortKey
	claim *v1beta1.EdgeClaim
	// leaves: no stream asks for the port any longer, or the class does not name the ConfigMap. left: the claim is the
	// ConfigMap's again.
	leaves, left bool
}

// settlement is what is to be done about the adoptions of one ConfigMap.
type settlement struct {
	// back are to be written back, and out to be removed.
	back, out []adoption
	// forget are settled: their claims need not remember them any longer. So are those that are gone, if what is stored says
	// so, too.
	forget, gone []adoption
	// returned stand there again while their streams still hold the claims. Nobody else may be kept from removing them.
	returned []adoption
}

// settleAdopted computes what is to be done, where take says that entries go for good. It follows from who stands there:
//
//	                      others, with the entry    others, with a newer one    not others
//	granted               -                         -                           forget, unless we have replaced it
//	leaves, Return        -                         -                           write it back, if we have replaced it
//	left, Return          forget                    forget                      the same, else forget
//	left, Take            remove                    forget                      forget
//
// What a stream leaves otherwise is ours, and goes like any entry that nobody asks for.
func settleAdopted(now stream.Current, take bool, adoptions []adoption) settlement {
	var s settlement
	for _, a := range adoptions {
		foreign, stands := now.Foreign[a.port.Port]
		switch {
		case !a.leaves:
			if !stands && !a.Replaced {
				s.gone = append(s.gone, a)
			}
		case take && a.left && stands && foreign == a.Entry:
			s.out = append(s.out, a)
		case !take && !stands && a.Replaced:
			s.back = append(s.back, a)
		case a.left:
			s.forget = append(s.forget, a)
		case stands && a.Replaced:
			s.returned = append(s.returned, a)
		}
	}
	return s
}

// giveBack settles the entries that were taken over at points of a class, nil when it is deleted; asked are the points that
// streams of the class ask for. What the API server refuses is reported, and left alone until the next look. A Conflict error
// says that something was written, and that the cache has yet to show it.
func (r *classReconciler) giveBack(
	ctx context.Context, class *v1beta1.StreamIngressClass, claims map[claim.Coordinate]*v1beta1.EdgeClaim,
	asked map[claim.Coordinate]bool, report *classReport,
) error {
	adoptions := map[claim.Holder][]adoption{}
	for at, c := range claims {
		if entry, in, left := claim.Adopted(c); entry != nil {
			adoptions[in] = append(adoptions[in], adoption{
				AdoptedEntry: entry, port: stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}, claim: c,
				leaves: left || !asked[at], left: left,
			})
		}
	}
	if len(adoptions) == 0 {
		return nil
	}
	classes, err := r.View.Classes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for in, adoptions := range adoptions {
		errs = append(errs, r.settleIn(ctx, class, classes, in, adoptions, report))
	}
	return errors.Join(errs...)
}

// settleIn settles the entries of one ConfigMap. One that is not there, or that another class writes to by now, stays as it is.
// Where no class names it, nobody says that entries are to be taken.
func (r *classReconciler) settleIn(
	ctx context.Context, class *v1beta1.StreamIngressClass, classes []v1beta1.StreamIngressClass,
	in claim.Holder, adoptions []adoption, report *classReport,
) error {
	cm, err := r.View.Targets.ConfigMap(ctx, v1beta1.ObjectReference{Namespace: in.Namespace, Name: in.Name})
	if err != nil {
		return err
	}
	mine := cm != nil && class != nil && kube.Names(class, cm)
	if !mine {
		for i := range adoptions {
			adoptions[i].leaves = true
		}
	}
	var s settlement
	if cm == nil || !mine && slices.ContainsFunc(classes, func(other v1beta1.StreamIngressClass) bool { return kube.Names(&other, cm) }) {
		s.forget = slices.DeleteFunc(adoptions, func(a adoption) bool { return !a.left })
	} else {
		current, err := r.View.Targets.Entries(cm)
		if err != nil {
			return err
		}
		s = settleAdopted(current, mine && class.Spec.Adopt == v1beta1.AdoptTake, adoptions)
		if err := r.write(ctx, cm, current, s, report); err != nil {
			return err
		}
	}
	return r.note(ctx, cm, s, report)
}

// note changes what claims remember of entries that are settled. That somebody has removed an entry at its source only what
// is stored tells: a cache may not show the entry yet.
func (r *classReconciler) note(ctx context.Context, cm *corev1.ConfigMap, s settlement, report *classReport) error {
	if len(s.gone) > 0 {
		stored := &corev1.ConfigMap{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cm), stored); err != nil {
			return client.IgnoreNotFound(err)
		}
		current, err := stream.Entries(stored)
		if err != nil {
			return err
		}
		s.forget = append(s.forget, settleAdopted(current, false, s.gone).gone...)
	}
	var errs []error
	for _, a := range s.forget {
		errs = append(errs, r.remember(ctx, a.claim, a.port, nil, report))
	}
	for _, a := range s.returned {
		returned := *a.AdoptedEntry
		returned.Replaced = false
		errs = append(errs, r.remember(ctx, a.claim, a.port, &returned, report))
	}
	return errors.Join(errs...)
}

// remember changes what the claim on a port remembers of an entry. Of a claim that has changed, or is gone, the next pass makes
// another picture. A refusal is reported.
func (r *classReconciler) remember(
	ctx context.Context, c *v1beta1.EdgeClaim, port stream.PortKey, adopted *v1beta1.AdoptedEntry, report *classReport,
) error {
	err := r.Ledger.Remember(ctx, c, adopted)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case write.IsRefusal(err):
		report.refuse(port, v1beta1.ReasonConfigMapRefused, fmt.Sprintf("what stood there before can't be noted: %s", err))
		return nil
	}
	return fmt.Errorf("noting what stood at %s before: %w", port, err)
}

// noteAdopted notes on the claims of a ConfigMap that a stream was granted the port of an entry, and that it is about to lead
// elsewhere: nobody else knows the entry then. Until the cache shows the note, the port is left as it is: a pass that saw the
// claim without it would not give back what is written now.
func (r *classReconciler) noteAdopted(
	ctx context.Context, s *proxyState, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) error {
	here := claim.ConfigMapHolder(cm.ref.Namespace, cm.ref.Name)
	for at, c := range s.claims {
		adopted, in, left := claim.Adopted(c)
		if adopted == nil || left || in != here || at.Protocol() != cm.protocol {
			continue
		}
		entry, ok := wanted[at.Port()]
		if !ok {
			continue
		}
		noted := *adopted
		noted.Granted, noted.Replaced = true, adopted.Replaced || entry.String() != adopted.Entry
		if noted == *adopted {
			continue
		}
		port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
		if err := r.remember(ctx, c, port, &noted, report); err != nil {
			return err
		}
		cm.current.Leave(wanted, port.Port)
	}
	return nil
}

// write writes entries back, beside those that were written back before, and removes others, whoever has written them.
func (r *classReconciler) write(
	ctx context.Context, cm *corev1.ConfigMap, current stream.Current, s settlement, report *classReport,
) error {
	if len(s.back) == 0 && len(s.out) == 0 {
		return nil
	}
	if keep, err := r.mayCloseIn(ctx, cm, report); err != nil || keep > 0 {
		return err
	}
	if len(s.back) > 0 {
		data := make(map[string]string, len(s.back)+len(current.Returned))
		for port := range current.Returned {
			data[stream.Key(port)] = current.Data[stream.Key(port)]
		}
		for _, a := range s.back {
			data[stream.Key(a.port.Port)] = a.Entry
		}
		apply := corev1ac.ConfigMap(cm.Name, cm.Namespace).WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion).WithData(data)
		err := r.Writer.Apply(ctx, apply, client.FieldOwner(stream.ReturnManager), client.ForceOwnership)
		return r.written(ctx, cm, "written back", s.back, err, report)
	}
	without := cm.DeepCopy()
	for _, a := range s.out {
		delete(without.Data, stream.Key(a.port.Port))
	}
	patch := client.MergeFromWithOptions(cm, client.MergeFromWithOptimisticLock{})
	err := r.Writer.Patch(ctx, without, patch, client.FieldOwner(stream.FieldManager))
	return r.written(ctx, cm, "removed", s.out, err, report)
}

// written returns a Conflict error when a write succeeded: what follows from it needs the new version. A refusal is reported.
func (r *classReconciler) written(
	ctx context.Context, cm *corev1.ConfigMap, what string, adoptions []adoption, err error, report *classReport,
) error {
	here := client.ObjectKeyFromObject(cm)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("entries that streams had taken over are "+what, "configMap", here, "entries", len(adoptions))
		return apierrors.NewConflict(corev1.Resource("configmaps"), cm.Name, errors.New("it has just been written"))
	case !write.IsRefusal(err):
		return fmt.Errorf("settling entries of ConfigMap %s: %w", here, err)
	}
	for _, a := range adoptions {
		report.refuse(a.port, v1beta1.ReasonConfigMapRefused,
			fmt.Sprintf("ConfigMap %s: what stood there before can't be %s: %s", here, what, err))
	}
	return nil
}
