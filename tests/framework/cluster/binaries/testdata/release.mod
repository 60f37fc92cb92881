module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
	github.com/spf13/cobra v1.9.1
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)

require golang.org/x/sys v0.31.0 // indirect

replace (
	github.com/example/fork => github.com/example/original v1.2.3
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/sample-controller => ./staging/src/k8s.io/sample-controller
)
