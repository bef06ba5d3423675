package main

import (
	"fmt"
	"net"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/empty"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// alternatives are what may stand in the place of Portcullis' admission, as values of the label admissionLabel of a
// namespace.
const (
	admissionLabel = "admission"
	byNothing      = "nothing"
	byEmptyWebhook = "empty-webhook"
	byPolicy       = "policy"
)

// offerAlternatives sets up the alternatives, and leaves namespaces with the label to them.
func (s *stage) offerAlternatives() (end func(), err error) {
	if err := s.leaveOut("portcullis"); err != nil {
		return nil, err
	}
	if err := s.offerPolicy(); err != nil {
		return nil, err
	}
	end, err = s.offerEmptyWebhook()
	if err != nil {
		return nil, err
	}
	return end, s.awaitAlternatives()
}

// leaveOut keeps the webhooks of a configuration out of namespaces that have the label.
func (s *stage) leaveOut(configuration string) error {
	var hooks admissionregistrationv1.ValidatingWebhookConfiguration
	if err := s.Client.Get(s.b.ctx, client.ObjectKey{Name: configuration}, &hooks); err != nil {
		return err
	}
	for i := range hooks.Webhooks {
		selector := hooks.Webhooks[i].NamespaceSelector
		if selector == nil {
			selector = &metav1.LabelSelector{}
			hooks.Webhooks[i].NamespaceSelector = selector
		}
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: admissionLabel, Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return s.Client.Update(s.b.ctx, &hooks)
}

// streamRule is the requests that the alternatives judge.
var streamRule = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule: admissionregistrationv1.Rule{
		APIGroups: []string{v1beta1.GroupName}, APIVersions: []string{"v1beta1"}, Resources: []string{"streamingresses"},
	},
}

func labeled(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{admissionLabel: value}}
}

// offerPolicy sets up a policy that looks at one field.
func (s *stage) offerPolicy() error {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: byPolicy}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		NamespaceSelector: labeled(byPolicy),
		ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: streamRule}},
	}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "object.spec.listen != 22"}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: byPolicy}}
	binding.Spec.PolicyName = byPolicy
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	if err := s.Client.Create(s.b.ctx, policy); err != nil {
		return err
	}
	return s.Client.Create(s.b.ctx, binding)
}

// offerEmptyWebhook sets up a webhook that says yes, with as many servers behind it as Portcullis has replicas.
func (s *stage) offerEmptyWebhook() (end func(), err error) {
	ca, err := empty.Certify(s.b.dir)
	if err != nil {
		return nil, err
	}
	front, err := harness.NewBalancer()
	if err != nil {
		return nil, err
	}
	var servers []*controlplane.Program
	end = func() {
		for _, server := range servers {
			_ = server.Stop(0)
		}
		_ = front.Close()
	}
	for range replicas {
		address, err := s.startEmptyWebhook(&servers)
		if err != nil {
			end()
			return nil, err
		}
		front.Add(address)
	}
	url := "https://" + front.Address() + empty.Path
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: byEmptyWebhook}}
	hooks.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name:         "empty.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}, NamespaceSelector: labeled(byEmptyWebhook),
		Rules: []admissionregistrationv1.RuleWithOperations{streamRule}, AdmissionReviewVersions: []string{"v1"},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(30)),
	}}
	return end, s.Client.Create(s.b.ctx, hooks)
}

// startEmptyWebhook starts one server, and returns its address when it listens.
func (s *stage) startEmptyWebhook(servers *[]*controlplane.Program) (string, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return "", err
	}
	server, err := s.b.spawn("empty", "--port="+strconv.Itoa(port), "--cert-dir="+s.b.dir)
	if err != nil {
		return "", err
	}
	*servers = append(*servers, server)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return address, s.until(func() (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return true, conn.Close()
	})
}

// awaitAlternatives waits until the API server has learned of all of them.
func (s *stage) awaitAlternatives() error {
	for _, by := range []string{byNothing, byEmptyWebhook, byPolicy} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "try-" + by, Labels: map[string]string{admissionLabel: by}}}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return err
		}
	}
	try := func(by string, port int) error {
		return s.Client.Create(s.b.ctx, stream("try-"+by, "try", "there-is-no-such-class", port), client.DryRunAll)
	}
	err := s.until(func() (bool, error) {
		return try(byNothing, 1) == nil && try(byEmptyWebhook, 1) == nil && try(byPolicy, 1) == nil && try(byPolicy, 22) != nil, nil
	})
	if err != nil {
		return fmt.Errorf("the API server does not use the alternatives: %w", err)
	}
	return nil
}

// lead takes the lease from the replicas, so that none of them reconciles.
func (s *stage) lead() error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: "portcullis-system", Name: "portcullis"}
	return s.until(func() (bool, error) {
		if err := s.Client.Get(s.b.ctx, key, lease); err != nil {
			return false, err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new("nobody"), new(int32(24*60*60))
		lease.Spec.RenewTime = new(metav1.NowMicro())
		err := s.Client.Update(s.b.ctx, lease)
		return err == nil, ignoreConflict(err)
	})
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
