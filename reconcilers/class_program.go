package reconcilers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/rules"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// asOwner applies as Portcullis, and takes back what somebody else has changed in what is ours. What is applied to an
// object that others write to, too, names the version that it was computed from: a leader that was paused, or a cache
// that lags behind, can't undo what is newer.
var asOwner = []client.ApplyOption{client.FieldOwner(stream.FieldManager), client.ForceOwnership}

// programConfigMap writes the entries of one protocol, if that changes anything. It returns the ports whose entries
// stand then.
func (r *classReconciler) programConfigMap(
	ctx context.Context, class *v1beta1.StreamIngressClass, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) ([]int32, error) {
	plan, err := r.planEntries(ctx, cm, wanted, report)
	if err != nil {
		return nil, err
	}
	observeConfigMap(class.Name, cm.protocol, plan)
	for _, port := range plan.Full {
		report.refuse(stream.PortKey{Protocol: cm.protocol, Port: port}, v1beta1.ReasonConfigMapFull, fmt.Sprintf(
			"ConfigMap %s/%s has no room for another entry: %d entries take %d bytes, and the API server stores no larger one",
			cm.ref.Namespace, cm.ref.Name, plan.Entries, plan.Bytes))
	}
	if cm.object == nil || plan.Changed || cm.object.Labels[v1beta1.LabelClass] != class.Name {
		apply := corev1ac.ConfigMap(cm.ref.Name, cm.ref.Namespace).
			WithLabels(map[string]string{v1beta1.LabelClass: class.Name}).WithData(plan.Data)
		if cm.object != nil {
			apply.WithUID(cm.object.UID).WithResourceVersion(cm.object.ResourceVersion)
		}
		if err := r.writer.Apply(ctx, apply, asOwner...); err != nil {
			return r.configMapRefused(cm, wanted, report, err)
		}
		report.wrote = true
		log.FromContext(ctx).V(1).Info("applied", "configMap", cm.ref, "entries", len(plan.Data))
	}
	ports := make([]int32, 0, len(plan.Data))
	for key := range plan.Data {
		if port, ok := stream.ParseKey(key); ok {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// planEntries computes what to write into a ConfigMap. What nobody asks for any longer goes if it may be closed.
func (r *classReconciler) planEntries(
	ctx context.Context, cm configMap, wanted map[int32]stream.Entry, report *classReport,
) (stream.EntryPlan, error) {
	plan := stream.PlanEntries(cm.standing, wanted, stream.MaxConfigMapBytes)
	if !plan.Removes {
		return plan, nil
	}
	keep, err := r.mayClose(ctx, cm.object)
	if err != nil || keep == 0 {
		return plan, err
	}
	report.retry(keep)
	return stream.PlanEntries(cm.standing, cm.standing.KeepOurs(wanted), stream.MaxConfigMapBytes), nil
}

// planPorts computes which ports to open on the Service of a class. Those that nobody asks for any longer go if they may
// be closed.
func (r *classReconciler) planPorts(
	ctx context.Context, s *scene, open map[stream.PortKey]bool, report *classReport,
) (stream.PortPlan, error) {
	plan := stream.PlanPorts(s.front, open)
	if len(plan.Stale) == 0 {
		return plan, nil
	}
	keep, err := r.mayClose(ctx, s.service)
	if err != nil || keep == 0 {
		return plan, err
	}
	report.retry(keep)
	return stream.PlanPorts(s.front, s.front.KeepOurs(open)), nil
}

// configMapRefused tells the streams that their ConfigMap can't be written. What stands there goes on standing.
func (r *classReconciler) configMapRefused(cm configMap, wanted map[int32]stream.Entry, report *classReport, err error) ([]int32, error) {
	if !isRefusal(err) {
		return nil, fmt.Errorf("applying ConfigMap %s/%s: %w", cm.ref.Namespace, cm.ref.Name, err)
	}
	var standing []int32
	for port, entry := range wanted {
		if cm.standing.Data[stream.Key(port)] == entry.String() {
			standing = append(standing, port)
			continue
		}
		report.refuse(stream.PortKey{Protocol: cm.protocol, Port: port}, v1beta1.ReasonConfigMapRefused,
			fmt.Sprintf("ConfigMap %s/%s: %s", cm.ref.Namespace, cm.ref.Name, err))
	}
	report.configMapError = err
	return standing, nil
}

// programService opens the ports of the class's Service, if that changes anything. A port that the API server refuses
// does not keep the others closed.
func (r *classReconciler) programService(ctx context.Context, s *scene, open map[stream.PortKey]bool, report *classReport) error {
	ref := s.class.Spec.Service
	if ref == nil {
		return nil
	}
	if s.service == nil {
		report.serviceMissing = true
		return nil
	}
	plan, err := r.planPorts(ctx, s, open, report)
	if err != nil {
		return err
	}
	if err := r.claimFront(ctx, s, &plan, report); err != nil {
		return err
	}
	for _, port := range plan.Limit(stream.MaxServicePorts - len(s.front.Foreign)) {
		report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf(
			"Service %s/%s has no room for another port: the API server can't store a Service with more than about %d",
			ref.Namespace, ref.Name, stream.MaxServicePorts))
	}
	labeled := s.service.Labels[v1beta1.LabelClass] == s.class.Name
	if !plan.Changed() && labeled {
		return nil
	}
	version := s.service.ResourceVersion
	attempt := func(ports []stream.PortKey) error {
		apply := serviceWith(s.class.Name, s.service, ports).WithResourceVersion(version)
		if err := r.writer.Apply(ctx, apply, asOwner...); err != nil {
			return err
		}
		report.wrote, version = true, *apply.ResourceVersion
		return nil
	}
	fresh := !labeled || len(plan.Stale) > 0
	refused, err := r.probe.open(s.class.Name, circumstances(s), plan, fresh, attempt)
	var closing *closingError
	if errors.As(err, &closing) {
		for _, port := range plan.Stale {
			report.refuse(port, v1beta1.ReasonPortRefused,
				fmt.Sprintf("Service %s/%s: the port can't be closed: %s", ref.Namespace, ref.Name, closing))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("applying Service %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	for _, port := range slices.SortedFunc(maps.Keys(refused), stream.ComparePorts) {
		report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf("Service %s/%s: %s", ref.Namespace, ref.Name, refused[port]))
	}
	return nil
}

// claimFront claims what the missing ports take of what the Service shares with others, and leaves out those of which others
// have it: kube-proxy would take their traffic here.
func (r *classReconciler) claimFront(ctx context.Context, s *scene, plan *stream.PortPlan, report *classReport) error {
	front, err := rules.FrontOf(ctx, r.view, s.class)
	if err != nil || front == nil {
		return err
	}
	by := front.Claimant()
	missing := plan.Missing[:0:0]
	for _, port := range plan.Missing {
		var held *claim.HeldError
		for _, point := range front.Points(port.Protocol, port.Port) {
			if _, err = r.ledger.Claim(ctx, point, by, nil); err != nil {
				break
			}
		}
		switch {
		case errors.As(err, &held):
			report.refuse(port, v1beta1.ReasonPortRefused,
				fmt.Sprintf("Service %s/%s: %s is %s", s.service.Namespace, s.service.Name, port, held))
		case err != nil:
			return err
		default:
			missing = append(missing, port)
		}
	}
	plan.Missing = missing
	return nil
}

// circumstances are what others decide about the Service of a class. When that changes, the API server may grant what it
// has refused.
func circumstances(s *scene) string {
	spec := s.service.Spec
	spec.Ports = nil
	for _, key := range slices.SortedFunc(maps.Keys(s.front.Foreign), stream.ComparePorts) {
		spec.Ports = append(spec.Ports, s.front.Foreign[key])
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error() // it can always be marshaled
	}
	return string(text)
}

// serviceWith is what we apply to a Service.
func serviceWith(class string, existing *corev1.Service, ports []stream.PortKey) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec()
	for _, port := range ports {
		spec.WithPorts(corev1ac.ServicePort().WithName(port.Name()).WithProtocol(corev1.Protocol(port.Protocol)).
			WithPort(port.Port).WithTargetPort(intstr.FromInt32(port.Port)))
	}
	svc := corev1ac.Service(existing.Name, existing.Namespace).WithUID(existing.UID).WithLabels(map[string]string{v1beta1.LabelClass: class})
	if len(ports) > 0 {
		svc.WithSpec(spec)
	}
	return svc
}

// letGo takes back what Portcullis has applied to ConfigMaps and Services that bear the label of a class, but that the
// class no longer names. class is nil when it is deleted. It returns when to look again, 0 for not at all.
func (r *classReconciler) letGo(ctx context.Context, name string, class *v1beta1.StreamIngressClass) (time.Duration, error) {
	labeled := client.MatchingLabels{v1beta1.LabelClass: name}
	var configMaps corev1.ConfigMapList
	var services corev1.ServiceList
	if err := errors.Join(r.view.Reader.List(ctx, &configMaps, labeled), r.view.Reader.List(ctx, &services, labeled)); err != nil {
		return 0, err
	}
	var again time.Duration
	var errs []error
	letGoOf := func(obj client.Object, nothing runtime.ApplyConfiguration) {
		if !cluster.Applied(obj) || names(class, obj) {
			return
		}
		keep, err := r.mayClose(ctx, obj)
		if err == nil && keep == 0 {
			err = r.letGoOf(ctx, obj, nothing)
		}
		again, errs = max(again, keep), append(errs, err)
	}
	for i := range configMaps.Items {
		cm := &configMaps.Items[i]
		letGoOf(cm, corev1ac.ConfigMap(cm.Name, cm.Namespace).WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion))
	}
	for i := range services.Items {
		svc := &services.Items[i]
		letGoOf(svc, corev1ac.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithResourceVersion(svc.ResourceVersion))
	}
	return again, errors.Join(errs...)
}

// letGoOf applies nothing at all to an object, and so takes back all that was applied before.
func (r *classReconciler) letGoOf(ctx context.Context, obj client.Object, nothing runtime.ApplyConfiguration) error {
	err := r.writer.Apply(ctx, nothing, asOwner...)
	switch {
	case err == nil || apierrors.IsConflict(err): // in a conflict, the change of the object brings us back
		return nil
	case isRefusal(err):
		log.FromContext(ctx).Info("entries or ports stay: the API server refuses to let go of them",
			"object", client.ObjectKeyFromObject(obj), "error", err.Error())
		return nil
	default:
		return fmt.Errorf("letting go of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// names says whether a class names an object as its ConfigMap or Service.
func names(class *v1beta1.StreamIngressClass, obj client.Object) bool {
	if class == nil {
		return false
	}
	refs := []*v1beta1.ObjectReference{class.Spec.TCPConfigMap, class.Spec.UDPConfigMap}
	if _, isService := obj.(*corev1.Service); isService {
		refs = []*v1beta1.ObjectReference{class.Spec.Service}
	}
	return slices.ContainsFunc(refs, func(ref *v1beta1.ObjectReference) bool {
		return ref != nil && ref.Namespace == obj.GetNamespace() && ref.Name == obj.GetName()
	})
}
