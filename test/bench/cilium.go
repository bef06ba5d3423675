package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// ciliumOperator is the variable of the environment that says where a cilium-operator is, built from its Go module.
	ciliumOperator = "CILIUM_OPERATOR"
	ciliumModule   = "github.com/cilium/cilium"
	ciliumUser     = "system:serviceaccount:kube-system:cilium-operator"
)

// cilium measures a class in front of a Gateway that Cilium's operator serves, where there is one.
func (b *bench) cilium() error {
	section := report.Section{Title: "Streams behind a Gateway of Cilium"}
	binary := os.Getenv(ciliumOperator)
	if binary == "" {
		section.About = "Not measured: " + ciliumOperator + " names no operator, which takes ten minutes to compile."
		b.add(section)
		return nil
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	version := ""
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == ciliumModule {
			version = m.Version
		}
	}
	section.About = fmt.Sprintf("As before, with Cilium's operator %s, whose Gateway has a Service with an address of an AddressPool of "+
		"Portcullis. Reported is when the operator has said of every listener and route that it is programmed.", version)
	w := onGateway
	w.title, w.said = "cilium", isOpen
	err = b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) (err error) {
		stop, err := s.startCilium(binary, version)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := s.Client.Create(b.ctx, &v1beta1.AddressPool{
			ObjectMeta: metav1.ObjectMeta{Name: w.title}, Spec: v1beta1.AddressPoolSpec{Addresses: []string{"198.51.100.1/32"}},
		}); err != nil {
			return err
		}
		if _, err := s.gatewayOf(w.title, w.title); err != nil {
			return err
		}
		if err := s.untilServed(w.title); err != nil {
			return err
		}
		section.Figures, err = s.fillUp(w, []int{b.of(1000, 200)})
		return err
	})
	b.add(section)
	return err
}

// startCilium starts Cilium's operator, with what it needs of the Gateway API alone, and waits until it serves its GatewayClass.
func (s *stage) startCilium(binary, version string) (stop func() error, err error) {
	if err := s.InstallGateways(s.b.ctx); err != nil {
		return nil, err
	}
	// It looks for all kinds, or serves none.
	if err := s.InstallGatewayKinds(s.b.ctx, "httproutes", "grpcroutes", "tlsroutes", "backendtlspolicies"); err != nil {
		return nil, err
	}
	if err := s.installCilium(version); err != nil {
		return nil, err
	}
	kubeconfig, err := s.KubeconfigFor(filepath.Join(s.b.dir, "cilium.kubeconfig"), ciliumUser, "system:masters")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(s.b.dir, "cilium")
	if err := os.Mkdir(config, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "enable-gateway-api"), []byte("true"), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.b.dir, "cilium.log"))
	if err != nil {
		return nil, err
	}
	arguments := []string{"--config-dir=" + config, "--k8s-kubeconfig-path=" + kubeconfig, "--k8s-namespace=kube-system"}
	for _, flag := range []string{"operator-api-serve-addr", "operator-prometheus-serve-addr"} {
		port, err := controlplane.FreePort()
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, fmt.Sprintf("--%s=127.0.0.1:%d", flag, port))
	}
	program, err := controlplane.StartProgram(binary, append(arguments, ciliumFlags...), log)
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(program.Stop(10*time.Second), log.Close()) }, s.until(func() (bool, error) {
		of := &gatewayv1.GatewayClass{}
		err := s.Client.Get(s.b.ctx, client.ObjectKey{Name: "cilium"}, of)
		return meta.IsStatusConditionTrue(of.Status.Conditions, string(gatewayv1.GatewayClassConditionStatusAccepted)), err
	})
}

// ciliumFlags leave out what else the operator does: it is to serve Gateways.
var ciliumFlags = []string{
	"--kube-proxy-replacement=true", "--ipam=kubernetes", "--identity-allocation-mode=crd", "--enable-ipv6=false",
	"--enable-gateway-api-secrets-sync=false", "--enable-lb-ipam=false", "--default-lb-service-ipam=none", "--enable-gops=false",
	"--unmanaged-pod-watcher-interval=0", "--remove-cilium-node-taints=false", "--set-cilium-node-taints=false",
	"--set-cilium-is-up-condition=false", "--synchronize-k8s-nodes=false", "--synchronize-k8s-services=false",
}

// installCilium applies the CRDs that the operator needs for Gateways, and a GatewayClass whose Services Portcullis gives addresses.
func (s *stage) installCilium(version string) error {
	download := exec.CommandContext(s.b.ctx, "go", "mod", "download", "-json", ciliumModule+"@"+version)
	download.Dir = s.b.dir // outside of any module, so that none has to know this one
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("downloading %s@%s: %w\n%s", ciliumModule, version, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	err = filepath.WalkDir(filepath.Join(module.Dir, "pkg", "k8s", "apis"), func(path string, _ fs.DirEntry, err error) error {
		kinds := []string{"ciliumenvoyconfigs.yaml", "ciliumclusterwideenvoyconfigs.yaml", "ciliumgatewayclassconfigs.yaml"}
		if err != nil || !slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasSuffix(path, kind) }) {
			return err
		}
		crd, err := controlplane.ReadFile(path)
		objects = append(objects, crd...)
		return err
	})
	if err != nil {
		return err
	}
	if err := controlplane.Apply(s.b.ctx, s.Config(), "cilium", objects...); err != nil {
		return err
	}
	parameters := map[string]any{"group": "cilium.io", "kind": "CiliumGatewayClassConfig", "namespace": "kube-system", "name": "portcullis"}
	return controlplane.Apply(s.b.ctx, s.Config(), "cilium",
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cilium.io/v2alpha1", "kind": parameters["kind"],
			"metadata": map[string]any{"namespace": parameters["namespace"], "name": parameters["name"]},
			"spec": map[string]any{"service": map[string]any{
				"type": "LoadBalancer", "loadBalancerClass": v1beta1.LoadBalancerClass, "allocateLoadBalancerNodePorts": false,
			}},
		}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": gatewayv1.GroupVersion.String(), "kind": "GatewayClass", "metadata": map[string]any{"name": "cilium"},
			"spec": map[string]any{"controllerName": "io.cilium/gateway-controller", "parametersRef": parameters},
		}},
	)
}
