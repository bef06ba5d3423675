package adversary

import "slices"

// ofTenants is all that tenants do.
var ofTenants = slices.Concat(ofServices, ofIngresses, ofStreams, ofListeners)
