package cluster

import "unique"

// shared is a string of which all equal ones take memory only once. It is for what many cached objects have in common:
// each of them was read with a copy of its own.
func shared[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }
