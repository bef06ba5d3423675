// Package claims releases the claims whose holders no longer want them, enters into the ledger what Ingresses serve that nobody
// has claimed, and compares the ledger with the cluster.
package claims

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

// Setup adds the reconcilers of claims to the manager.
func Setup(mgr manager.Manager, a access.Access, o Options) error {
	registerClaimMetrics(mgr.GetCache())
	return errors.Join(setupClaim(mgr, a, o), setupForeignIngress(mgr, a), setupAudit(mgr, a, o.AuditInterval))
}
