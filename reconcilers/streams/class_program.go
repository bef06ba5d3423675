package streams

import (
	"context"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

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
		if err := r.Writer.Apply(ctx, apply, write.AsOwner...); err != nil {
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
	plan := stream.PlanEntries(cm.current, wanted, stream.MaxConfigMapBytes)
	if !plan.Removes {
		return plan, nil
	}
	if keep, err := r.mayCloseIn(ctx, cm.object, report); err != nil || keep == 0 {
		return plan, err
	}
	return stream.PlanEntries(cm.current, cm.current.KeepOurs(wanted), stream.MaxConfigMapBytes), nil
}

// configMapRefused tells the streams that their ConfigMap can't be written. What is there stays.
func (r *classReconciler) configMapRefused(cm configMap, wanted map[int32]stream.Entry, report *classReport, err error) ([]int32, error) {
	if !write.IsRefusal(err) {
		return nil, fmt.Errorf("applying ConfigMap %s/%s: %w", cm.ref.Namespace, cm.ref.Name, err)
	}
	var current []int32
	for port, entry := range wanted {
		if cm.current.Data[stream.Key(port)] == entry.String() {
			current = append(current, port)
			continue
		}
		report.refuse(stream.PortKey{Protocol: cm.protocol, Port: port}, v1beta1.ReasonConfigMapRefused,
			fmt.Sprintf("ConfigMap %s/%s: %s", cm.ref.Namespace, cm.ref.Name, err))
	}
	report.configMapError = err
	return current, nil
}
