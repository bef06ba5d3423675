package rules

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// suggestions is how many free ports a refusal names.
const suggestions = 3

// Conflict tells a stream that its point is held: by whom, since when, and what is free nearby. graceLeft is how long
// the ledger keeps the claim if its holder is gone.
func Conflict(
	ctx context.Context, v View, s *v1beta1.StreamIngress, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) (refusal.Problems, error) {
	suggestion, err := suggest(ctx, v, s, at)
	if err != nil {
		return nil, err
	}
	holder := claim.HolderOf(held)
	text := "held by " + holder.String() + refusal.Since(held)
	text += fmt.Sprintf(" on class %q", at.Class())
	leaving, err := isLeaving(ctx, v, holder, at)
	if err != nil {
		return nil, err
	}
	if leaving {
		text = fmt.Sprintf("held for %s, which is not stored or no longer asks for it, on class %q; it is free again %s, try again then",
			holder, at.Class(), refusal.Soon(graceLeft))
	}
	return refusal.One(v1beta1.ReasonPortConflict, &field.Error{
		Type: field.ErrorTypeDuplicate, Field: listenPath.String(), BadValue: at.Point(),
		Detail: text + "; " + suggestion,
	}), nil
}

// isLeaving says whether a stream that holds a point is gone, or wants another.
func isLeaving(ctx context.Context, v View, holder claim.Holder, at claim.Coordinate) (bool, error) {
	if !holder.IsStream() {
		return false, nil
	}
	s, err := v.Stream(ctx, holder.Key())
	if err != nil || s == nil {
		return err == nil, err
	}
	class := cmp.Or(s.Spec.ClassName, s.Status.ClassName, at.Class())
	return class != at.Class() || s.Spec.Listen != nil && Wanted(s, at.Class(), nil) != at, nil
}

// suggest names the free ports next to a point that the stream's namespace may use.
func suggest(ctx context.Context, v View, s *v1beta1.StreamIngress, at claim.Coordinate) (string, error) {
	class, err := v.Class(ctx, at.Class())
	if err != nil || class == nil {
		return "", err
	}
	namespace, err := v.NamespaceLabels(ctx, s.Namespace)
	if err != nil {
		return "", err
	}
	shares, err := portShares(ctx, v, s, class, namespace)
	if err != nil {
		return "", err
	}
	free := stream.Permitted(class, at.Protocol(), namespace, spent(shares)...)
	v.Unclaimed(free, class.Name, at.Protocol())
	front, err := FrontOf(ctx, v, class)
	if err != nil {
		return "", err
	}
	if err := front.Free(ctx, v, at.Protocol(), free); err != nil {
		return "", err
	}
	free.Remove(at.Port()) // what was there before may not be in the ledger yet
	nearest := free.Nearest(at.Port(), suggestions)
	if len(nearest) == 0 {
		return fmt.Sprintf("no port of this class is free for namespace %q", s.Namespace), nil
	}
	numbers := make([]string, len(nearest))
	for i, port := range nearest {
		numbers[i] = stream.Key(port)
	}
	text := fmt.Sprintf("free for namespace %q nearby: %s", s.Namespace, strings.Join(numbers, ", "))
	if stream.Drawable(class, free) {
		text += "; or leave listen out to be given a port"
	}
	return text, nil
}

// Adoption looks for what stands at a point that was not made by Portcullis. A stream of the namespace that it leads to,
// which says exactly the same, takes it over: adopted is what it takes. Any other finds it held, even if the ledger has no
// claim on it yet. Leave to lead somewhere is not leave to take what leads there.
func Adoption(
	ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) (adopted *v1beta1.AdoptedEntry, problems refusal.Problems, err error) {
	f, foreign, err := v.Foreign(ctx, class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
	if err != nil || !foreign {
		return nil, nil, err
	}
	same, err := saysTheSame(ctx, v, s, class, f.Entry)
	if err != nil {
		return nil, nil, err
	}
	if same {
		return &v1beta1.AdoptedEntry{Holder: f.Holder.Spec(f.Holder.UID), Entry: f.Entry}, nil, nil
	}
	held, err := v.Claim(ctx, at.Name())
	if err != nil || held != nil {
		return nil, nil, err // the ledger will tell
	}
	problems, err = Conflict(ctx, v, s, at, claim.New(at, f.Holder), 0)
	return nil, problems, err
}

// saysTheSame says whether a foreign entry sends the traffic exactly where a stream would.
func saysTheSame(ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, entry string) (bool, error) {
	theirs, err := stream.ParseEntry(entry)
	if err != nil {
		return false, nil //nolint:nilerr // what can't be read can't say the same
	}
	if theirs.Namespace != s.Namespace {
		return false, nil
	}
	if problems, err := Consent(ctx, v, s, class); err != nil || len(problems) > 0 {
		return false, err
	}
	svc, err := v.Service(ctx, upstreamOf(s))
	if err != nil {
		return false, err
	}
	ours, ok := stream.EntryFor(s, svc, "")
	if !ok {
		return false, nil
	}
	// The foreign entry may name the port that ours has by number.
	return ours == theirs.WithNumber(svc, s.ProtocolOrDefault()), nil
}
