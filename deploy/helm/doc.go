// Package helm has the Helm chart, in the folder fairlead, and tests of what it renders.
//
// `make chart` renders it with values of four kinds of users (testdata/values) into
// testdata/rendered, after helm's lint and kubeconform found nothing: see check, which is a
// module of its own. The tests here need no Helm. They compare digests, so that nobody changes
// the chart without `make chart`, and check what was rendered: by the schemas of Kubernetes, and
// as configs of a worker.
package helm
