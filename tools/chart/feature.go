package main

// feature is one component of the kustomize tree, and when the chart has it.
type feature struct {
	// component is its directory, and file the name of the template of its own objects.
	component, file string
	// when is the condition in the language of templates.
	when string
}

// features are the components that the chart knows. None changes what another one changes.
var features = []feature{
	{"certmanager", "certmanager", `eq .Values.certificates "CertManager"`},
	{"selfsigned", "selfsigned", `eq .Values.certificates "SelfSigned"`},
	{"guard", "guard", ".Values.guard.enabled"},
	{"prometheus", "prometheus", ".Values.prometheus.enabled"},
	{"grafana", "grafana", ".Values.grafana.enabled"},
	{"networkpolicy", "networkpolicy", ".Values.networkPolicy.enabled"},
	{"rbac/ledger-for-all", "ledger-for-all", ".Values.ledgerForAll.enabled"},
}

// setting is a field that a value of the chart decides, whatever the kustomize tree says.
type setting struct {
	kind, name string
	// path leads to the field; a number is an index.
	path []string
	// to is what the template has there.
	to string
}

// container is where something of the container is in the Deployment.
func container(path ...string) []string {
	return append([]string{"spec", "template", "spec", "containers", "0"}, path...)
}

// prometheus begins an action with a field of the account that scrapes.
const prometheus = "{{ .Values.prometheus.serviceAccount"

// settings are all of them.
var settings = []setting{
	{"Deployment", "portcullis", container("image"), `{{ include "portcullis.image" . | quote }}`},
	{"Deployment", "portcullis", container("imagePullPolicy"), `{{ .Values.image.pullPolicy }}`},
	{"Deployment", "portcullis", container("resources"), `{{ toYaml .Values.resources | nindent 10 }}`},
	{"Deployment", "portcullis", []string{"spec", "replicas"}, `{{ .Values.replicas }}`},
	{"NetworkPolicy", "portcullis", []string{"spec", "ingress", "0", "from"}, `{{ toYaml .Values.networkPolicy.apiServer | nindent 4 }}`},
	{"NetworkPolicy", "portcullis", []string{"spec", "ingress", "1", "from"}, `{{ toYaml .Values.networkPolicy.prometheus | nindent 4 }}`},
	{"ClusterRoleBinding", "portcullis-metrics-reader", []string{"subjects", "0", "name"}, prometheus + ".name }}"},
	{"ClusterRoleBinding", "portcullis-metrics-reader", []string{"subjects", "0", "namespace"}, prometheus + ".namespace }}"},
	{"RoleBinding", "portcullis-metrics-discovery", []string{"subjects", "0", "name"}, prometheus + ".name }}"},
	{"RoleBinding", "portcullis-metrics-discovery", []string{"subjects", "0", "namespace"}, prometheus + ".namespace }}"},
}

// guardMode is how the component guard says what is guarded, and guardValue how the chart does.
const guardMode, guardValue = "--guard=all=Deny", "--guard={{ .Values.guard.mode }}"
