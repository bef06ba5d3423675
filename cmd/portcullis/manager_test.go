package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestSchemeKnowsWhatIsReadAndWritten(t *testing.T) {
	scheme := newScheme()
	for _, obj := range []runtime.Object{
		&v1beta1.StreamIngress{}, &v1beta1.StreamIngressClass{}, &v1beta1.EdgeClaim{},
		&corev1.ConfigMap{}, &corev1.Service{}, &corev1.Namespace{}, &corev1.Secret{}, &discoveryv1.EndpointSlice{}, &gatewayv1beta1.ReferenceGrant{},
	} {
		if kinds, _, err := scheme.ObjectKinds(obj); err != nil || len(kinds) != 1 {
			t.Errorf("%T: %v, %v", obj, kinds, err)
		}
	}
}
