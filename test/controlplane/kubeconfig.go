package controlplane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigFor writes a kubeconfig file for user, a member of groups, and returns its absolute path. See ConfigFor.
func (cp *ControlPlane) KubeconfigFor(path, user string, groups ...string) (string, error) {
	config, err := cp.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	const name = "portcullis-local"
	file := api.NewConfig()
	file.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user, Namespace: "default"}
	file.CurrentContext = name
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("kubeconfig of user %s: %w", user, err)
	}
	return path, nil
}
