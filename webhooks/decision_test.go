package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

var listen = field.NewPath("spec", "listen")

func denial() refusal.Problems {
	return refusal.Problems{
		{Reason: v1beta1.ReasonPortReserved, Err: field.Invalid(listen, 80, "class \"public\" reserves this port for itself")},
		{Reason: v1beta1.ReasonRefNotPermitted, Err: field.Invalid(field.NewPath("spec", "upstream", "namespace"), "data", "has not consented")},
	}
}

// TestAnswer has the whole status that a client gets, for each kind of decision, and how it is counted.
func TestAnswer(t *testing.T) {
	warnings := admission.Warnings{"spec.upstream.service: there is no Service shop/db yet"}
	cause := func(kind metav1.CauseType, message, name string) metav1.StatusCause {
		return metav1.StatusCause{Type: kind, Message: message, Field: name}
	}
	retry := func(text string) *metav1.Status {
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
			Message: "portcullis could not decide, try again: " + text}
	}
	busy := apierrors.NewTooManyRequestsError("the claim changes too fast, try again")
	busyStatus := busy.Status()
	for name, tc := range map[string]struct {
		decision decision
		err      error
		want     *metav1.Status
		counted  [2]string
	}{
		"yes":                             {decision{}, nil, nil, [2]string{"allowed", ""}},
		"yes, with a word":                {decision{warnings: warnings}, nil, nil, [2]string{"allowed", ""}},
		"yes, though it would be refused": {decision{warnings: warnings, warned: denial()}, nil, nil, [2]string{"warned", "PortReserved"}},
		"no, for two causes": {decision{warnings: warnings, problems: denial()}, nil, &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: `StreamIngress.nginx-stream.jeffthecoder.xyz "postgres" is invalid: [spec.listen: Invalid value: 80: ` +
				`class "public" reserves this port for itself, spec.upstream.namespace: Invalid value: "data": has not consented]`,
			Details: &metav1.StatusDetails{Group: v1beta1.GroupName, Kind: "StreamIngress", Name: "postgres", Causes: []metav1.StatusCause{
				cause(metav1.CauseTypeFieldValueInvalid, `Invalid value: 80: class "public" reserves this port for itself`, "spec.listen"),
				cause(metav1.CauseTypeFieldValueInvalid, `Invalid value: "data": has not consented`, "spec.upstream.namespace"),
			}},
		}, [2]string{"denied", "PortReserved"}},
		"no, as a conflict": {decision{problems: refusal.Problems{{Reason: v1beta1.ReasonPortConflict, Err: &field.Error{
			Type: field.ErrorTypeDuplicate, Field: "spec.listen", BadValue: "TCP/80", Detail: "held by Service edge/proxy"}}}}, nil, &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: `StreamIngress.nginx-stream.jeffthecoder.xyz "postgres" is invalid: spec.listen: Duplicate value: "TCP/80": held by Service edge/proxy`,
			Details: &metav1.StatusDetails{Group: v1beta1.GroupName, Kind: "StreamIngress", Name: "postgres", Causes: []metav1.StatusCause{
				cause(metav1.CauseTypeFieldValueDuplicate, `Duplicate value: "TCP/80": held by Service edge/proxy`, "spec.listen"),
			}},
		}, [2]string{"denied", "PortConflict"}},
		"no idea": {decision{warnings: warnings}, errors.New("connection refused"), retry("connection refused"), [2]string{"error", "ServiceUnavailable"}},
		"no idea, by a verdict of the API server on something of ours": {
			decision{}, apierrors.NewForbidden(schema.GroupResource{Resource: "edgeclaims"}, "x", errors.New("no rights")),
			retry(`edgeclaims "x" is forbidden: no rights`), [2]string{"error", "ServiceUnavailable"}},
		"no idea, as it is busy":             {decision{}, busy, &busyStatus, [2]string{"error", "TooManyRequests"}},
		"no idea, before the cache is there": {decision{}, errNotSynced, retry("the cluster is still being read"), [2]string{"error", "ServiceUnavailable"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
			counter := decisions.WithLabelValues("StreamIngress", "create", tc.counted[0], tc.counted[1])
			before := testutil.ToFloat64(counter)
			got, err := answer(ctx, streamKind, "postgres", func(context.Context) (decision, error) { return tc.decision, tc.err })
			if diff := cmp.Diff(tc.decision.warnings, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, statusOf(err)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if testutil.ToFloat64(counter) != before+1 {
				t.Errorf("it was not counted as %v", tc.counted)
			}
		})
	}
}

func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	s := status.Status()
	return &s
}

func TestABusyLedgerStaysBusyWhenWrapped(t *testing.T) {
	err := unavailable(fmt.Errorf("claiming: %w", apierrors.NewTooManyRequestsError("wait")))
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
}

func TestWarn(t *testing.T) {
	want := admission.Warnings{
		`spec.listen: class "public" reserves this port for itself`, "spec.upstream.namespace: has not consented",
	}
	if diff := cmp.Diff(want, warn(denial())); diff != "" {
		t.Error(diff)
	}
	if got := warn(nil); len(got) != 0 {
		t.Errorf("of nothing it warns %v", got)
	}
}

func TestIsDryRun(t *testing.T) {
	for name, tc := range map[string]struct {
		dryRun *bool
		want   bool
	}{
		"not said":   {nil, false},
		"a dry run":  {new(true), true},
		"a real one": {new(false), false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: tc.dryRun}})
			if got := isDryRun(ctx); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if isDryRun(t.Context()) {
		t.Error("without a request")
	}
}
