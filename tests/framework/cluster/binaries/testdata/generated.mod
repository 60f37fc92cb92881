module github.com/kruise-operator/kruise-operator/cache/kubernetes

go 1.24.0

godebug default=go1.24

require (
	k8s.io/kubernetes v1.34.2
	github.com/spf13/cobra v1.9.1 // indirect
	k8s.io/api v0.0.0 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
	golang.org/x/sys v0.31.0 // indirect
)

replace github.com/example/fork => github.com/example/original v1.2.3

replace k8s.io/api => k8s.io/api v0.34.2

replace k8s.io/sample-controller => k8s.io/sample-controller v0.34.2
