// The end-to-end tests are a module of their own, so that nothing that they need becomes part of the product.
module jeffthecoder.xyz/portcullis/test/e2e

go 1.26.0
