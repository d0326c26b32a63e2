// Pulumi's own Kubernetes plugin, for machines that release downloads do not reach.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	// The schema and the mapping answer questions that only code generators and imports ask.
	provider.Serve("kubernetes", version.Version, []byte("{}"), []byte("{}"))
}
