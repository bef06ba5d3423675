package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// serviceReconciler opens the ports of each class on its Service: those whose entries the ConfigMaps have. It works beside
// classReconciler, which asks for it after each look at a class, so that no ConfigMap waits for a Service: the API server
// allocates node ports one by one, and that of a thousand takes seconds.
type serviceReconciler struct {
	base
	pacer     *pacer
	probe     *rejectedPorts
	nodePorts *nodePortRange
	entered   *entered
	reports   *classReports
}

// openers is how many Services are written at once: one that takes long does not hold up those of other classes.
const openers = 4

func newServiceReconciler(b base, reports *classReports) *serviceReconciler {
	return &serviceReconciler{
		base: b, pacer: newPacer(clock.RealClock{}), probe: newRejectedPorts(clock.RealClock{}), nodePorts: newNodePortRange(),
		entered: newEntered(), reports: reports,
	}
}

func (r *serviceReconciler) setup(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("streamingressclass-service").
		WatchesRawSource(r.entered).
		WithOptions(watch.Orderly[reconcile.Request](openers)).
		Complete(watch.Guarded(r.View, r.Kinds, r))
}

// Reconcile opens the ports of one class on its Service.
func (r *serviceReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if wait := r.pacer.wait(req.Name); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	class, err := r.View.Class(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if class == nil {
		r.pacer.forget(req.Name)
		r.probe.forget(req.Name)
		return reconcile.Result{}, nil
	}
	wanted, known := r.entered.of(class)
	if !known {
		return reconcile.Result{}, nil // the look at the class asks again
	}
	began := time.Now()
	report, err := r.program(ctx, class, wanted)
	r.pacer.done(req.Name, report.wrote, time.Since(began))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: paceFirst}, nil // somebody else has written, the cache will show it
	}
	report.serviceError = err
	if whole, complete := r.reports.ofService(class, report); complete {
		if failed := r.reportClass(ctx, class, whole); failed != nil {
			return watch.Later(errors.Join(err, failed))
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: report.again()}, nil
}

// program opens the wanted ports on the Service of a class, if that changes anything. A port that the API server refuses
// does not keep the others closed.
func (r *serviceReconciler) program(
	ctx context.Context, class *v1beta1.StreamIngressClass, wanted map[stream.PortKey]bool,
) (report classReport, err error) {
	if class.Spec.Service == nil {
		return report, nil
	}
	p, err := r.proxyOf(ctx, class)
	if err != nil {
		return report, err
	}
	if p.service == nil {
		report.serviceMissing = true
		return report, nil
	}
	plan, err := r.planPorts(ctx, p, wanted, &report)
	if err != nil {
		return report, err
	}
	if err := r.noteClass(ctx, p, plan.Current); err != nil {
		return report, err
	}
	refused, missing := r.probe.recall(class.Name, fingerprint(p), plan)
	p.refuse(&report, refused)
	plan.Missing = missing
	for _, port := range plan.Limit(stream.MaxServicePorts - len(p.front.Foreign)) {
		report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf("%s has no room for another port: "+
			"the API server can't store a Service with more than about %d", p, stream.MaxServicePorts))
	}
	labeled := p.service.Labels[v1beta1.LabelClass] == class.Name
	if !plan.Changed() && labeled {
		return report, nil
	}
	report.waiting = len(plan.Missing)
	err = r.open(ctx, p, plan, !labeled || len(plan.Stale) > 0, &report)
	return report, err
}

// planPorts computes which ports to open on the Service of a class. Those that nobody asks for any longer go if they may
// be closed.
func (r *serviceReconciler) planPorts(
	ctx context.Context, p *proxy, wanted map[stream.PortKey]bool, report *classReport,
) (stream.PortPlan, error) {
	plan := stream.PlanPorts(p.front, wanted)
	if len(plan.Stale) > 0 {
		keep, err := r.mayClose(ctx, p.service)
		if err != nil {
			return plan, err
		}
		if keep > 0 {
			report.retry(keep)
			plan = stream.PlanPorts(p.front, p.front.KeepOurs(wanted))
		}
	}
	// The ConfigMaps were looked at a moment ago. What a stream has let go of since is not opened any more.
	missing := plan.Missing[:0:0]
	for _, port := range plan.Missing {
		if _, ours := p.front.Ours[port]; ours {
			missing = append(missing, port)
			continue
		}
		c, err := r.View.Claim(ctx, claim.Stream(p.class.Name, port.Protocol, port.Port).Name())
		if err != nil {
			return plan, err
		}
		if c != nil && claim.HolderOf(c).IsStream() {
			missing = append(missing, port)
		}
	}
	plan.Missing = missing
	return plan, nil
}

// open applies a plan to the Service of a class, and reports what is refused. With force something has to be applied, even
// when no port is missing.
func (r *serviceReconciler) open(ctx context.Context, p *proxy, plan stream.PortPlan, force bool, report *classReport) error {
	room, learn, err := r.room(ctx, p.service)
	if err != nil {
		return err
	}
	version := p.service.ResourceVersion
	bisect := newBisect(room, func(ports []stream.PortKey) error {
		apply := serviceWith(p.class.Name, p.service, ports).WithResourceVersion(version)
		if err := r.Writer.Apply(ctx, apply, write.AsOwner...); err != nil {
			return err
		}
		report.wrote, version = true, *apply.ResourceVersion
		return nil
	})
	bisect.claim = func(ports []stream.PortKey) ([]stream.PortKey, error) { return r.claimFront(ctx, p, ports, report) }
	err = bisect.run(plan, force)
	learn(bisect)
	var closing *closingError
	switch {
	case errors.As(err, &closing):
		for _, port := range plan.Stale {
			report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf("%s: the port can't be closed: %s", p, closing))
		}
		return nil
	case err != nil:
		return fmt.Errorf("applying %s: %w", p, err)
	}
	r.probe.remember(p.class.Name, bisect)
	p.refuse(report, bisect.refused)
	return nil
}

// room estimates how many ports may be opened on a Service before node ports run out. What a bisect finds out makes the next
// estimate better.
func (r *serviceReconciler) room(ctx context.Context, svc *corev1.Service) (room int, learn func(*bisect), err error) {
	if !takesNodePorts(svc) {
		return unlimited, func(*bisect) {}, nil
	}
	used, err := r.View.LoadBalancers.NodePorts(ctx)
	return r.nodePorts.free(used), func(s *bisect) { r.nodePorts.learn(used, s) }, err
}
