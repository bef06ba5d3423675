package main

import (
	"context"
	"os/exec"
	"strings"
	"text/template"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// guideText is what a newcomer needs: where the cluster is, and what to try first.
var guideText = template.Must(template.New("guide").Parse(`
{{.Rule}}
Portcullis is ready. In another terminal, paste:

export KUBECONFIG={{.Kubeconfig}}
{{- if .Path}}
export PATH="{{.Path}}:$PATH"
{{- end}}

# Expose TCP port 3306 of a Service, and see that it is accepted and open:

kubectl create service clusterip mysql --tcp=3306
kubectl apply -f - <<EOF
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: mysql}
spec: {listen: 3306, upstream: {service: mysql, port: 3306}}
EOF
kubectl wait --for=condition=Programmed streamingress/mysql
kubectl get streamingresses,edgeclaims
kubectl get configmap tcp-services -n ingress-nginx -o yaml
kubectl get service ingress-nginx-controller -n ingress-nginx

# Ask for the same port from another namespace, and be refused:

kubectl create namespace rival
kubectl create service clusterip mysql --tcp=3306 -n rival
kubectl apply -n rival -f - <<EOF
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: mysql}
spec: {listen: 3306, upstream: {service: mysql, port: 3306}}
EOF

# Delete a namespace, and everything in it goes, its ports too. A quota would count streams, with
# --hard=count/streamingresses.nginx-stream.jeffthecoder.xyz=1:

kubectl delete namespace rival

There are no nodes here: nothing listens on the ports, and Pods stay Pending.

What the fields mean: kubectl explain streamingress.spec
More to apply:        kubectl apply -k {{.Samples}}
Metrics:              curl http://127.0.0.1:{{.MetricsPort}}/metrics

Ctrl-C here ends it. The data stays; make run CLEAN=1 starts afresh. The log of Portcullis follows.
{{.Rule}}

`))

// guide prints what to do next.
func (s *session) guide() error {
	path, err := kubectlDir()
	if err != nil {
		return err
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	return guideText.Execute(s.out, map[string]any{
		"Rule":        strings.Repeat("=", 100),
		"Kubeconfig":  s.cp.Kubeconfig(),
		"Path":        path,
		"Samples":     root + "/" + samples + "/streams",
		"MetricsPort": s.metricPort,
	})
}

// kubectlDir returns the directory of the kubectl that was built along with the control plane, and nothing when there is
// one on the PATH.
func kubectlDir() (string, error) {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "", nil
	}
	return controlplane.Assets(context.Background())
}
