// CoreDNS with the plugins that the cluster of the tests uses, and no others: those would be most of its build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// The order in which they are asked, whatever a Corefile says: a subset of CoreDNS's own list, in its order.
func init() {
	dnsserver.Directives = []string{
		"ready", "health", "errors", "loadbalance", "cache", "template", "kubernetes",
	}
}

func main() {
	coremain.Run()
}
