// Package crd has the CustomResourceDefinitions of Portcullis, as they are installed.
package crd

import "embed"

// Bases are their manifests, one file each, in the directory bases.
//
//go:embed bases/*.yaml
var Bases embed.FS
