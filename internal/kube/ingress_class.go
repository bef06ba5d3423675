package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// DefaultsOf stand in for what the annotation of a Service leaves out. The class is that of its Ingress, which was the default when that
// was made, or the one that is marked as default now.
func (r *Ingresses) DefaultsOf(ctx context.Context, key types.NamespacedName) (exposure.Defaults, error) {
	if r.Defaults.Class != "" {
		return r.Defaults, nil
	}
	ing, err := r.Get(ctx, key)
	if err != nil {
		return r.Defaults, err
	}
	return r.DefaultsBeside(ctx, ing)
}

// DefaultsBeside are those of a Service that has an Ingress, nil for none.
func (r *Ingresses) DefaultsBeside(ctx context.Context, ing *networkingv1.Ingress) (defaults exposure.Defaults, err error) {
	defaults = r.Defaults
	switch {
	case defaults.Class != "":
	case ing != nil:
		defaults.Class = exposure.ClassOf(ing)
	default:
		classes, err := r.classes(ctx)
		if err != nil {
			return defaults, err
		}
		defaults.Class = exposure.DefaultClass(classes)
	}
	return defaults, nil
}

// HasClass says whether there is an IngressClass of a name; for "" whether one is marked as default.
func (r *Ingresses) HasClass(ctx context.Context, name string) (bool, error) {
	if name != "" {
		class, err := read[networkingv1.IngressClass](ctx, r.objects, types.NamespacedName{Name: name})
		return class != nil, err
	}
	classes, err := r.classes(ctx)
	return exposure.DefaultClass(classes) != "", err
}

func (r *Ingresses) classes(ctx context.Context) ([]networkingv1.IngressClass, error) {
	var list networkingv1.IngressClassList
	err := r.objects.Reader.List(ctx, &list)
	return list.Items, err
}

// ClassFor is the IngressClass for which a Service or an Ingress that holds a path has it. It is not known of one that can't be read, or
// that is not there, and of nobody while older replicas run: they see to it that a holder has a path of all classes.
func (r *Ingresses) ClassFor(ctx context.Context, holder claim.Holder) (class string, known bool, err error) {
	if older, err := r.replicas.run(ctx); err != nil || older {
		return "", false, err
	}
	ing, err := r.Get(ctx, holder.Key())
	if err != nil {
		return "", false, err
	}
	if !holder.IsService() {
		if ing == nil {
			return "", false, nil
		}
		return exposure.ClassOf(ing), true, nil
	}
	class, known, err = r.requested(ctx, holder.Key(), ing)
	if err == nil && !known && ing != nil { // which serves it yet
		return exposure.ClassOf(ing), true, nil
	}
	return class, known, err
}

// requested is the class that the annotation of a Service asks for; known is false where there is none that can be read.
func (r *Ingresses) requested(
	ctx context.Context, key types.NamespacedName, ing *networkingv1.Ingress,
) (class string, known bool, err error) {
	svc, err := readBy[corev1.Service](ctx, r.objects.Reader, key)
	if err != nil || svc == nil {
		return "", false, err
	}
	defaults, err := r.DefaultsBeside(ctx, ing)
	if err != nil {
		return "", false, err
	}
	if _, requests := exposure.Annotation(svc); !requests {
		return "", false, nil
	}
	e, problems := exposure.RequestOf(svc, defaults)
	return e.Class, len(problems) == 0, nil
}

// KeepsFrom says whether somebody's claim on a path of no class keeps another one from that path of a class: its holder has it for the same
// class, or for one that can't be told.
func (r *Ingresses) KeepsFrom(ctx context.Context, at claim.Coordinate, by types.NamespacedName) (bool, error) {
	if at.IngressClass() == "" {
		return false, nil
	}
	held, err := r.objects.Claim(ctx, at.ServedBy("").Name())
	if err != nil || held == nil || claim.HolderOf(held).Key() == by || !claim.MayBeOfAnyClass(held) {
		return false, err
	}
	class, known, err := r.ClassFor(ctx, claim.HolderOf(held))
	return err == nil && (!known || class == at.IngressClass()), err
}

// OlderReplicas says whether replicas of a version run that claims paths for all classes at once. Where that can't be told, it is as if
// there were some, which keeps nobody from what he has.
func (r *Ingresses) OlderReplicas(ctx context.Context) bool {
	run, err := r.replicas.run(ctx)
	return run || err != nil
}

// HeirsKnown says whether all replicas that run know of heirs of claims: until then, and while that can't be told, nothing is handed over.
func (r *Ingresses) HeirsKnown(ctx context.Context) bool {
	unknown, err := r.withoutHeirs.run(ctx)
	return err == nil && !unknown
}
