// Command check renders Fairlead's Helm chart with values of four kinds of users, and checks it
// as helm lint, helm template and kubeconform --strict do: `make chart`.
//
//	check                 in the folder deploy/helm
//	check -swagger FILE   also makes schemas/kubernetes.json anew, from the OpenAPI description of a Kubernetes release
//
// It writes what it rendered to testdata/rendered, and the digests of what that was made from to
// testdata/SUMS. A test in the main module compares the digests and checks what was rendered. So
// Helm, which takes minutes to compile, is compiled only when the chart changes: this is why the
// command is a module of its own.
package main
